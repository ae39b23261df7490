#!/usr/bin/env bash
# Writes the files that clusterctl installs: out/addon-helmop/VERSION/{addon-components.yaml,metadata.yaml}. The folder has
# the layout of a clusterctl repository: use it as `url: file://…/out/addon-helmop/VERSION/addon-components.yaml`. Also
# writes the variants for `clusterctl generate yaml`: {shard,one-namespace}-components.yaml.
# The variable OUT replaces the folder `out`, KUSTOMIZE the pinned kustomize.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?usage: release-manifests.sh VERSION IMAGE TAG}
image=${2:?image name without tag}
tag=${3:?image tag}
kustomize=${KUSTOMIZE:-go tool -modfile=hack/tools/codegen/go.mod kustomize}

if [[ ! $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  echo "RELEASE_TAG $version is not a version such as v0.1.0: clusterctl accepts only versions" >&2
  exit 1
fi
# clusterctl refuses a release whose series metadata.yaml does not list.
IFS=. read -r major minor _ <<<"${version#v}"
if ! awk -v major="$major" -v minor="$minor" \
  '$1 == "-" && $2 == "major:" { m = $3 } $1 == "minor:" && m == major && $2 == minor { found = 1 } END { exit !found }' \
  metadata.yaml; then
  echo "metadata.yaml has no release series for $version: add it" >&2
  exit 1
fi

# An overlay sets the image's name and tag, so that no file of the tree changes. It has a copy of config, because
# kustomize requires relative paths and only GNU's realpath computes them.
out=${OUT:-out}
mkdir -p "$out"
overlay=$(mktemp -d "$out/overlay.XXXXXX")
trap 'rm -rf "$overlay"' EXIT
cp -R config "$overlay/config"
release=$out/addon-helmop/$version
mkdir -p "$release"

# build FOLDER FILE writes a file of the release from a folder of config.
build() {
  cat >"$overlay/kustomization.yaml" <<YAML
resources:
- config/$1
images:
- name: ghcr.io/helmop/cluster-api-helmop-controller
  newName: $image
  newTag: $tag
YAML
  $kustomize build "$overlay" >"$overlay/built.yaml"
  mv "$overlay/built.yaml" "$release/$2"
}
build default addon-components.yaml
build shard shard-components.yaml
build one-namespace one-namespace-components.yaml
cp metadata.yaml "$release/metadata.yaml"
echo "wrote {addon,shard,one-namespace}-components.yaml and metadata.yaml to $release (image $image:$tag)"
