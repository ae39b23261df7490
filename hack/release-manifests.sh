#!/usr/bin/env bash
# Writes what clusterctl installs: out/addon-helmop/VERSION/{addon-components.yaml,metadata.yaml}. The folder's layout is
# that of a clusterctl repository, so a `url: file://…/out/addon-helmop/VERSION/addon-components.yaml` works as it is.
# OUT replaces the folder `out`, KUSTOMIZE the pinned kustomize.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?usage: release-manifests.sh VERSION IMAGE TAG}
image=${2:?image name without tag}
tag=${3:?image tag}
kustomize=${KUSTOMIZE:-go tool -modfile=hack/tools/codegen/go.mod kustomize}

if [[ ! $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  echo "RELEASE_TAG $version is not a version such as v0.1.0: clusterctl takes no other names" >&2
  exit 1
fi
# clusterctl refuses a release whose series metadata.yaml does not list.
series=${version#v}
if ! grep --after-context=1 "^- major: ${series%%.*}\$" metadata.yaml | grep --quiet "^  minor: $(cut --delimiter=. --fields=2 <<<"$series")\$"; then
  echo "metadata.yaml has no release series for $version: add it" >&2
  exit 1
fi

# An overlay, so that the image's name and tag are set without editing files of the tree. kustomize wants relative paths.
out=${OUT:-out}
mkdir -p "$out"
overlay=$(mktemp -d "$out/overlay.XXXXXX")
trap 'rm -rf "$overlay"' EXIT
cat >"$overlay/kustomization.yaml" <<YAML
resources:
- $(realpath --relative-to="$overlay" config/default)
images:
- name: ghcr.io/helmop/cluster-api-helmop-controller
  newName: $image
  newTag: $tag
YAML
release=$out/addon-helmop/$version
mkdir -p "$release"
$kustomize build "$overlay" >"$overlay/components.yaml"
mv "$overlay/components.yaml" "$release/addon-components.yaml"
cp metadata.yaml "$release/metadata.yaml"
echo "wrote $release/addon-components.yaml and metadata.yaml (image $image:$tag)"
