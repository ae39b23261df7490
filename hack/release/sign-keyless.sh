#!/usr/bin/env bash
# Signs a release with the identity of a workflow: the checksums and the provenance as files, and the pushed artifacts
# in their registry. Needs cosign 3 in an environment with an OpenID Connect token, such as GitHub Actions.
set -euo pipefail

files=${1:?usage: sign-keyless.sh FOLDER PUSHED}
pushed=${2:?file with the pushed references, one on each line}

cosign sign-blob --yes --bundle "$files/SHA256SUMS.sigstore.json" "$files/SHA256SUMS"
cosign attest-blob --yes --type slsaprovenance1 --statement "$files/provenance.intoto.json" \
  --bundle "$files/provenance.intoto.json.sigstore.json"

predicate=$(mktemp)
trap 'rm -f "$predicate"' EXIT
go run ./hack/cmd/release predicate "$files/provenance.intoto.json" >"$predicate"
while IFS= read -r reference; do
  cosign sign --yes "$reference"
  cosign attest --yes --type slsaprovenance1 --predicate "$predicate" "$reference"
done <"$pushed"
