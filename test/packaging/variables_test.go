// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	// placeholder replaces values until the YAML is parsed.
	placeholder = "PLACEHOLDER"
)

// quantities are the variables whose values are quantities.
var quantities = []string{"HELMOP_ARTIFACT_VOLUME_SIZE", "HELMOP_MEMORY_LIMIT"}

// TestVariablesMayBeAnything checks that an API server accepts the Deployment from clusterctl, with each value
// unchanged. clusterctl replaces variables before the YAML is parsed, and in YAML some texts are numbers, booleans or
// aliases.
func TestVariablesMayBeAnything(t *testing.T) {
	t.Parallel()
	programs, err := binaries.Ensure(t.Context(), binaries.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"config/default", "config/management-cluster", "config/shard"} {
		text, err := command("go", "tool", "-modfile=hack/tools/codegen/go.mod", "kustomize", "build", folder)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "components.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"", "1", "0x1", "true", "null", "*.example.com", "[a]"} {
			t.Run(folder+"="+value, func(t *testing.T) {
				t.Parallel()
				env := []string{"XDG_CONFIG_HOME=" + t.TempDir(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true"}
				// The name of a shard is part of labels, which cannot be any text.
				keepsDefault := func(name string) bool {
					return value == "" || slices.Contains(quantities, name) || name == "HELMOP_SHARD"
				}
				for _, found := range variable.FindAllStringSubmatch(text, -1) {
					if !keepsDefault(found[1]) {
						env = append(env, found[1]+"="+value)
					}
				}
				if value == "1" {
					for _, quantity := range quantities {
						env = append(env, quantity+"="+value)
					}
				}
				made, err := testbed.Run(t.Context(), programs.Path(binaries.Clusterctl), env, "generate", "yaml", "--from", file)
				if err != nil {
					t.Fatal(err)
				}
				want := settings(t, managerOf(t, variable.ReplaceAllStringFunc(text, func(found string) string {
					if parts := variable.FindStringSubmatch(found); keepsDefault(parts[1]) {
						return parts[2]
					}
					return placeholder
				})))
				for i := range want {
					want[i] = strings.ReplaceAll(want[i], placeholder, value)
				}
				if got := settings(t, managerOf(t, made.Stdout)); !slices.Equal(got, want) {
					t.Errorf("the settings are %q, want %q", got, want)
				}
			})
		}
	}
}

// managerOf returns the Deployment of objects.
func managerOf(t *testing.T, text string) unstructured.Unstructured {
	t.Helper()
	found := ofKind(parse(t, text), "Deployment")
	if len(found) != 1 {
		t.Fatalf("%d Deployments, want 1", len(found))
	}
	return found[0]
}

// settings returns the arguments and the environment of the manager, as the kubelet passes them.
func settings(t *testing.T, deployment unstructured.Unstructured) []string {
	t.Helper()
	container := convert[appsv1.Deployment](t, deployment).Spec.Template.Spec.Containers[0]
	all := slices.Clone(container.Args)
	for _, one := range container.Env {
		all = append(all, one.Name+"="+one.Value)
	}
	for i := range all {
		all[i] = expand(all[i], container.Env)
	}
	return all
}
