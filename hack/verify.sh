#!/usr/bin/env bash
# Checks that the generated files in the tree equal the output of the generators and of the go command. Changes nothing:
# the generators run on a copy. Arguments select checks: boilerplate, imports, aligned, generated, tidy. Without arguments,
# all checks run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()

# files lists the files that Git tracks or would track, so that new files are checked before they are added.
files() {
  git ls-files --cached --others --exclude-standard -z -- "$@" | while IFS= read -r -d '' file; do
    [[ -f $file ]] && printf '%s\0' "$file"
  done
  return 0
}

verify_generated() {
  local copy status=0
  copy=$(mktemp -d)
  files . | tar --null --files-from=- --create --file=- | tar --extract --directory="$copy" --file=-
  make --no-print-directory -C "$copy" generate manifests api-docs cli-docs || status=$?
  if ((status == 0)); then
    for path in api config docs/reference; do
      diff --recursive --unified --new-file "$path" "$copy/$path" || status=1
    done
  fi
  rm -rf "$copy"
  ((status == 0)) || { echo "Generated files are not current: run \`make generate manifests api-docs cli-docs\` and commit the result."; return 1; }
}

verify_boilerplate() {
  local status=0 file header
  header=$(cat hack/boilerplate.go.txt)
  while IFS= read -r -d '' file; do
    # Build constraints are before the licence.
    if [[ $(sed -e '/^\/\/go:build/d' "$file" | sed -e '/./,$!d' | head -n "$(wc -l <hack/boilerplate.go.txt)") != "$header" ]]; then
      echo "$file: does not begin with the licence of hack/boilerplate.go.txt"
      status=1
    fi
  done < <(files '*.go')
  return $status
}

# Helm v3 is near the end of its life. Only these two packages may use it, so that the move to v4 changes only them.
verify_imports() {
  local offenders status=0
  offenders=$(git grep --untracked --line-number '"helm\.sh/helm/v3' -- '*.go' \
    ':!internal/helmclient/' ':!internal/bundle/' ':!test/' ':!*_test.go') || status=$?
  ((status <= 1)) || { echo "git grep failed with the exit code $status"; return 1; } # 1: no match
  [[ -z $offenders ]] || { echo "$offenders"; echo "Only internal/helmclient and internal/bundle may import helm.sh/helm/v3."; return 1; }
}

# Two versions of one dependency would be compiled twice.
verify_aligned() {
  go run ./hack/cmd/align -check . hack/tools/caaph hack/tools/codegen hack/tools/prometheus hack/tools/testbed
}

# Without a network, a module that is not in the cache cannot be checked. The check then reports this and does not fail.
verify_tidy() {
  local status=0 mod out err
  err=$(mktemp)
  while IFS= read -r -d '' mod; do
    printf '  %s\n' "$mod"
    if out=$(go -C "$(dirname "$mod")" mod tidy -diff 2>"$err"); then
      continue
    elif [[ -n $out ]]; then
      printf '%s\n%s is not tidy: run `go mod tidy` in %s.\n' "$out" "$mod" "$(dirname "$mod")"
      status=1
    elif grep --quiet --extended-regexp 'dial tcp|no such host|connection refused|i/o timeout|network is unreachable|module lookup disabled' "$err"; then
      printf '  %s: skipped, a module is not in the cache and there is no network\n' "$mod"
    else
      cat "$err"
      status=1
    fi
  done < <(files 'go.mod' '**/go.mod')
  rm -f "$err"
  return $status
}

checks=("$@")
((${#checks[@]})) || checks=(boilerplate imports aligned generated tidy)
for check in "${checks[@]}"; do
  echo "verify $check ..."
  started=$SECONDS
  "verify_$check" || failed+=("$check")
  echo "verify $check: $((SECONDS - started)) s"
done
if ((${#failed[@]})); then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
