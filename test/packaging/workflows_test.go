// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow has the fields of a workflow of GitHub Actions that the rules below are about.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Timeout     int               `json:"timeout-minutes"`
		Steps       []struct {
			Uses string            `json:"uses"`
			Run  string            `json:"run"`
			With map[string]any    `json:"with"`
			Env  map[string]string `json:"env"`
		} `json:"steps"`
	} `json:"jobs"`
}

// pinned matches an action with the digest of a commit, and the version that the digest is.
var pinned = regexp.MustCompile(`(?m)uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// target matches the only permitted command of a step.
var target = regexp.MustCompile(`^make ([a-z-]+|"\$TARGET")( [A-Z]+=\S+)*$`)

// TestWorkflows checks that workflows have no rights by default, pin actions by digest, and run targets of the Makefile
// only, which everyone can run.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(paths) < 4 {
		t.Fatalf("%d workflows, %v", len(paths), err)
	}
	makefile := string(readFile(t, "Makefile"))
	for _, path := range paths {
		name := filepath.Base(path)
		text := string(readFile(t, filepath.Join(".github", "workflows", name)))
		var parsed workflow
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if parsed.Permissions == nil || len(parsed.Permissions) != 0 || !strings.Contains(text, "\npermissions: {}\n") {
			t.Errorf("%s: the workflow has permissions, which each job must ask for: %v", name, parsed.Permissions)
		}
		if uses := strings.Count(text, "uses: "); uses != len(pinned.FindAllString(text, -1)) {
			t.Errorf("%s: an action is not pinned by a digest with its version in a comment", name)
		}
		for jobName, job := range parsed.Jobs {
			if len(job.Permissions) == 0 || job.Timeout == 0 {
				t.Errorf("%s: job %s has no permissions or no timeout", name, jobName)
			}
			for _, step := range job.Steps {
				if step.Run == "" {
					if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
						t.Errorf("%s: the checkout keeps the token for later steps", name)
					}
					continue
				}
				found := target.FindStringSubmatch(step.Run)
				if found == nil {
					t.Errorf("%s runs %q, which is not a target of the Makefile", name, step.Run)
				} else if found[1] != `"$TARGET"` && !strings.Contains(makefile, "\n"+found[1]+": ") {
					t.Errorf("%s runs %q, which the Makefile does not have", name, step.Run)
				}
			}
		}
	}
}

// TestTestWorkflowRunsWhatCIRuns checks that the test workflow has the phases of .ci/run.
func TestTestWorkflowRunsWhatCIRuns(t *testing.T) {
	t.Parallel()
	var parsed struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ Target []string } }
		}
	}
	if err := yaml.Unmarshal(readFile(t, ".github/workflows/test.yml"), &parsed); err != nil {
		t.Fatal(err)
	}
	targets := parsed.Jobs["test"].Strategy.Matrix.Target
	phases := regexp.MustCompile(`(?m)^phase make (\w+)$`).FindAllStringSubmatch(string(readFile(t, ".ci/run")), -1)
	if len(phases) < 3 {
		t.Fatalf("%d phases in .ci/run", len(phases))
	}
	for _, phase := range phases {
		wanted := []string{phase[1]}
		if phase[1] == "test" { // the workflow runs its two halves at the same time
			wanted = []string{"test-unit", "test-e2e"}
		}
		for _, target := range wanted {
			if !slices.Contains(targets, target) {
				t.Errorf("the workflow does not run `make %s`", target)
			}
		}
	}
	for _, target := range []string{"test-permissions", "test-migrations", "test-release", "test-charts",
		"test-kube-state-metrics"} {
		if !slices.Contains(targets, target) {
			t.Errorf("the workflow does not run `make %s`, which no phase of .ci/run covers", target)
		}
	}
}

// TestWorkflowsRunAllTests checks that a workflow runs each target of the Makefile for tests.
func TestWorkflowsRunAllTests(t *testing.T) {
	t.Parallel()
	var workflows strings.Builder
	paths, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		workflows.Write(readFile(t, filepath.Join(".github", "workflows", filepath.Base(path))))
	}
	makefile := string(readFile(t, "Makefile"))
	targets := regexp.MustCompile(`(?m)^(test-[a-z0-9-]+):`).FindAllStringSubmatch(makefile, -1)
	if want := strings.Count(makefile, "\ntest-"); len(targets) != want || want < 10 {
		t.Fatalf("%d of %d targets in the Makefile have names that the test reads", len(targets), want)
	}
	for _, target := range targets {
		if !regexp.MustCompile(`[[, ]` + target[1] + `(,|\]|\n)`).MatchString(workflows.String()) {
			t.Errorf("no workflow runs `make %s`", target[1])
		}
	}
}

// TestKeylessSigningScript checks that the script of the release workflow reads the files that hack/cmd/release writes.
func TestKeylessSigningScript(t *testing.T) {
	t.Parallel()
	script := string(readFile(t, "hack/release/sign-keyless.sh"))
	source := string(readFile(t, "hack/cmd/release/summary.go")) + string(readFile(t, "hack/release/files/checksums.go"))
	for _, name := range []string{"SHA256SUMS", "provenance.intoto.json", ".sigstore.json"} {
		if !strings.Contains(script, name) || !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("%s is not the name of a file of a release in both", name)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", filepath.Join(root,
		"hack/release/sign-keyless.sh")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
