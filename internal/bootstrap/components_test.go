// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func unset(string) (string, bool) { return "", false }

func mustBuild(t *testing.T, options Options) []*unstructured.Unstructured {
	t.Helper()
	if options.Variable == nil {
		options.Variable = unset
	}
	objects, err := Components(options)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// container returns the container of the manager.
func container(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(find(t, objects, "Deployment", Deployment).Object, "spec", "template",
		"spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%v, %v", containers, err)
	}
	made, _ := containers[0].(map[string]any)
	return made
}

func text(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	data, err := YAML(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestComponents(t *testing.T) {
	t.Parallel()
	objects := mustBuild(t, Options{Version: "v1.2.3"})
	all := text(t, objects)
	if all != text(t, mustBuild(t, Options{Version: "v1.2.3"})) {
		t.Error("they are others the second time")
	}
	for _, part := range []string{"--management-cluster-namespaces=helmop-system", "maxUnavailable: 0", "--leader-elect",
		"image: " + imageName + ":v1.2.3"} {
		if !strings.Contains(all, part) {
			t.Errorf("they have no %q", part)
		}
	}
	if strings.Contains(all, "${") {
		t.Error("a variable was not replaced")
	}
	for _, object := range objects {
		// Without the label, clusterctl move does not move the objects of the kind.
		if _, has := object.GetLabels()["clusterctl.cluster.x-k8s.io"]; has != (object.GetKind() == crdKind) {
			t.Errorf("%s is labelled for clusterctl: %t", Title(object), has)
		}
	}
	for i, object := range objects[1:] {
		if phase(object) < phase(objects[i]) {
			t.Errorf("%s comes after %s", Title(object), Title(objects[i]))
		}
	}
	if objects[0].GetKind() != "Namespace" || objects[len(objects)-1].GetKind() != "Deployment" {
		t.Errorf("the first is %s, the last %s", Title(objects[0]), Title(objects[len(objects)-1]))
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"": imageName + ":v1", "r.example/m": "r.example/m:v1", "r.example:5000/m": "r.example:5000/m:v1",
		"r.example:5000/m:x":                            "r.example:5000/m:x",
		"r.example/m@sha256:" + strings.Repeat("a", 64): "r.example/m@sha256:" + strings.Repeat("a", 64),
	} {
		if got := container(t, mustBuild(t, Options{Version: "v1", Image: image}))["image"]; got != want {
			t.Errorf("%q: %v, want %s", image, got, want)
		}
	}
	if _, err := Components(Options{Version: "v1", Image: ":x", Variable: unset}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an image without a name: %v", err)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	all := text(t, mustBuild(t, Options{Version: "v1", Variable: func(name string) (string, bool) {
		return "7", name == "HELMOP_CONCURRENCY"
	}}))
	if !strings.Contains(all, "--helmop-concurrency=7") || !strings.Contains(all, "--helmoprelease-concurrency=24") {
		t.Error("the variable was not taken, or a default was lost")
	}
	// In YAML, some texts are numbers or booleans.
	for _, value := range []string{"1", "true"} {
		built := container(t, mustBuild(t, Options{Version: "v1", Variable: func(name string) (string, bool) {
			return value, name == "HELMOP_NO_PROXY" || name == "HELMOP_WATCH_FILTER"
		}}))
		if env, args := fmt.Sprintf("%q", built["env"]),
			fmt.Sprintf("%q", built["args"]); !strings.Contains(env, `"$(EMPTY)`+value+`"`) ||
			!strings.Contains(args, `"--watch-filter=`+value+`"`) {
			t.Errorf("%s: the environment is %s, the arguments are %s", value, env, args)
		}
	}
}

func TestUsersKustomization(t *testing.T) {
	t.Parallel()
	replicas := "patches:\n- target: {kind: Deployment}\n  patch: |\n    - {op: replace, path: /spec/replicas, value: 2}\n"
	for name, tc := range map[string]struct {
		files map[string]string
		want  string // text of the error
	}{
		"a patch": {files: map[string]string{"kustomization.yaml": replicas}},
		"that names the components": {files: map[string]string{"kustomization.yaml": replicas +
			"resources: [helmop-components.yaml]\n"}},
		"that names them by a path": {files: map[string]string{"kustomization.yaml": replicas +
			"resources: [./helmop-components.yaml]\n"}},
		"with an object": {files: map[string]string{"kustomization.yaml": replicas + "resources: [a.yaml]\n",
			"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}},
		"from another host": {files: map[string]string{"kustomization.yaml": "resources: [https://example.com/a]\n"},
			want: "HelmOp fetches no other files"},
		"another namespace": {files: map[string]string{"kustomization.yaml": "namespace: other\n"},
			want: "must neither remove nor rename it"},
		"no Deployment": {files: map[string]string{"kustomization.yaml": "patches:\n- patch: |\n    $patch: " +
			"delete\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: helmop-controller-manager, " +
			"namespace: helmop-system}\n"}, want: "must neither remove nor rename it"},
		"no YAML": {files: map[string]string{"kustomization.yaml": ":"}, want: "not a YAML object"},
		"components of its own": {files: map[string]string{"kustomization.yaml": replicas, ComponentsFile: "a: b\n"},
			want: "rename the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := Options{Version: "v1", Variable: unset, Kustomization: map[string][]byte{}}
			for file, content := range tc.files {
				options.Kustomization[file] = []byte(content)
			}
			objects, err := Components(options)
			switch {
			case tc.want != "":
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
			case err != nil:
				t.Error(err)
			default:
				if n, _, _ := unstructured.NestedFieldNoCopy(find(t, objects, "Deployment", Deployment).Object, "spec",
					"replicas"); n != int64(2) {
					t.Errorf("%v replicas", n)
				}
			}
		})
	}
}

func TestOwn(t *testing.T) {
	t.Parallel()
	objects := mustBuild(t, Options{Version: "v1"})
	for _, object := range Own(objects) {
		isCRD := object.GetKind() == crdKind
		if isOwned := object.GetLabels()[inventory.ManagedByLabel] == inventory.ManagedByHelm &&
			object.GetAnnotations()[inventory.HelmReleaseName] == ProviderHelmOp &&
			object.GetAnnotations()[inventory.HelmReleaseNamespace] == Namespace; isOwned == isCRD {
			t.Errorf("%s is owned: %t", Title(object), isOwned)
		}
	}
	if strings.Contains(text(t, objects), inventory.HelmReleaseName) {
		t.Error("the components themselves were changed")
	}
}

func TestHelmOps(t *testing.T) {
	t.Parallel()
	provider, state := Artifact{URL: "oci://r.example/helmop", Tag: "production"},
		Artifact{URL: "oci://r.example/fleet", Tag: "production", Path: "clusters/production"}
	objects, err := HelmOps(provider, state, Access{DockerConfig: []byte("{}"), CA: []byte("pem")})
	if err != nil || len(objects) != 4 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	for _, name := range []string{ProviderHelmOp, StateHelmOp} {
		helmOp := find(t, objects, "HelmOp", name).Object
		if policy, _, _ := unstructured.NestedString(helmOp, "spec", "deletionPolicy"); policy != "Orphan" {
			t.Errorf("%s: the deletion policy is %s: its end would take away the manager, or all Clusters", name, policy)
		}
		for path, want := range map[string]string{"secretRef": PullSecret, "certSecretRef": CASecret} {
			if got, _, _ := unstructured.NestedString(helmOp, "spec", "source", path, "name"); got != want {
				t.Errorf("%s: %s is %q", name, path, got)
			}
		}
		if _, has := helmOp["status"]; has {
			t.Errorf("%s has a status", name)
		}
	}
	signed, err := HelmOps(provider, state, Access{VerifyKey: []byte("pem"), PauseState: true})
	if err != nil || len(signed) != 3 {
		t.Fatalf("%d objects, %v", len(signed), err)
	}
	for _, name := range []string{ProviderHelmOp, StateHelmOp} {
		helmOp := find(t, signed, "HelmOp", name).Object
		if got, _, _ := unstructured.NestedString(helmOp, "spec", "source", "verify", "secretRef",
			"name"); got != VerifySecret {
			t.Errorf("%s is verified by %q", name, got)
		}
		if paused, _, _ := unstructured.NestedBool(helmOp, "spec", "paused"); paused != (name == StateHelmOp) {
			t.Errorf("%s is paused: %t", name, paused)
		}
	}
	open, err := HelmOps(provider, state, Access{PlainHTTP: true})
	if err != nil || len(open) != 2 || strings.Contains(text(t, open), "secretRef") ||
		!strings.Contains(text(t, open), "insecure: true") {
		t.Errorf("%v, %v", open, err)
	}
}
