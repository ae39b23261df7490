// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"reflect"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

func TestObserve(t *testing.T) {
	t.Parallel()
	secret := func(name, version, status string, more ...string) *metav1.PartialObjectMetadata {
		labels := map[string]string{"owner": "helm", "name": "demo", "version": version, "status": status}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, Labels: labels},
		}
	}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme,
		secret("a", "9", "superseded", model.LabelOwner, "default.demo"),
		secret("b", "10", "deployed"),
		secret("c", "no number", "deployed"),
		secret("d", "11", "deployed", "name", "other"))
	found, err := historyOf(t.Context(), client, "apps", "demo")
	if err != nil {
		t.Fatal(err)
	}
	obs := found.observation()
	if len(obs.Records) != 2 || obs.Records[0].Revision != 10 || obs.Records[1].Revision != 9 {
		t.Errorf("records %+v", obs.Records)
	}
	if obs.Owner() != "default.demo" {
		t.Errorf("owner %q", obs.Owner())
	}
	if empty, err := historyOf(t.Context(), client, "none", "demo"); err != nil || len(empty.metadata) != 0 {
		t.Errorf("a namespace without records: %+v, %v", empty, err)
	}
	all, _, err := historiesIn(t.Context(), client, "apps")
	if err != nil || len(all) != 2 {
		t.Fatalf("the records of all releases: %+v, %v", all, err)
	}
	if same := all["demo"].observation(); !reflect.DeepEqual(same, obs) {
		t.Errorf("together with other releases, the release has the records %+v, want %+v", same, obs)
	}
	if other := all["other"].observation(); len(other.Records) != 1 || other.Records[0].Revision != 11 {
		t.Errorf("the other release has the records %+v", other.Records)
	}
}

func TestCopyChart(t *testing.T) {
	t.Parallel()
	original := helmtest.NewChart("1.0.0", nil)
	original.Values = map[string]any{"map": map[string]any{"a": 1}, "list": []any{map[string]any{"b": 1}}, "nothing": nil}
	original.Metadata.Dependencies = []*chart.Dependency{nil, {Name: "sub", ImportValues: []any{"data"}}}
	sub := helmtest.NewChart("2.0.0", nil)
	original.AddDependency(sub)

	copied := rendering.CopyChart(original)
	copied.Values["map"].(map[string]any)["a"] = 2
	copied.Values["list"].([]any)[0].(map[string]any)["b"] = 2
	copied.Metadata.Dependencies[1].Name = "changed"
	copied.Metadata.Dependencies[1].ImportValues[0] = "changed"
	copied.Dependencies()[0].Metadata.Version = "changed"
	copied.SetDependencies()
	if original.Values["map"].(map[string]any)["a"] != 1 || original.Values["list"].([]any)[0].(map[string]any)["b"] != 1 {
		t.Error("values are shared")
	}
	if d := original.Metadata.Dependencies[1]; d.Name != "sub" || d.ImportValues[0] != "data" {
		t.Error("metadata is shared")
	}
	if len(original.Dependencies()) != 1 || sub.Metadata.Version != "2.0.0" || sub.Parent() != original {
		t.Error("dependencies are shared")
	}
}

func TestObserveUnreachable(t *testing.T) {
	t.Parallel()
	_, err := New(testRunner).Observe(t.Context(),
		model.Target{Key: "a", Config: &rest.Config{Host: "https://127.0.0.1:1"}}, "apps", "demo")
	helmtest.WantError(t, err, helmerr.ErrUnreachable, false, "refused")
	_, err = New(testRunner).Act(t.Context(), model.Target{Key: "a", Config: &rest.Config{Host: "https://127.0.0.1:1"}},
		decide.Decision{Action: model.ActionUninstall},
		helmtest.DesiredFor("apps", "demo", "a", "v"), model.Options{}, nil, nil)
	helmtest.WantError(t, err, helmerr.ErrUnreachable, false, "refused")
}
