// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasespec

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// fill sets every field of a struct, so that the tests detect a new field that is not converted.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), reflect.ValueOf("value").Convert(v.Type().Elem()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	}
}

// zeroFields returns the paths of the fields of a struct that are not set.
func zeroFields(path string, v reflect.Value) []string {
	if v.Kind() != reflect.Struct {
		if v.IsZero() {
			return []string{path}
		}
		return nil
	}
	var zero []string
	for i := range v.NumField() {
		zero = append(zero, zeroFields(path+"."+v.Type().Field(i).Name, v.Field(i))...)
	}
	return zero
}

func TestOptionsOfSetsAllFields(t *testing.T) {
	t.Parallel()
	var spec addonsv1.ReleaseOptions
	fill(reflect.ValueOf(&spec).Elem())
	spec.Test.Filters = []addonsv1.TestFilter{{Name: "a"}, {Name: "b", Exclude: true}}
	options := OptionsOf(&spec)
	zero := zeroFields("", reflect.ValueOf(options))
	// These fields are not in the spec.
	want := []string{".Uninstall.Wait", ".PostRender", ".SecretValues", ".Admit", ".BeforeRender", ".Progress", ".Stop",
		".KeepManifest"}
	if !reflect.DeepEqual(zero, want) {
		t.Errorf("not set: %v, want %v", zero, want)
	}
}

// TestTakeOwnershipIsForUpgrades checks that install.takeOwnership also applies to upgrades. A failed first
// installation is retried as an upgrade, which may have objects that the failed revision did not have.
func TestTakeOwnershipIsForUpgrades(t *testing.T) {
	t.Parallel()
	for _, takesOwnership := range []bool{false, true} {
		spec := addonsv1.ReleaseOptions{Install: &addonsv1.InstallOptions{TakeOwnership: &takesOwnership}}
		if got := OptionsOf(&spec).Upgrade.TakeOwnership; got != takesOwnership {
			t.Errorf("install.takeOwnership %t: upgrades take ownership: %t", takesOwnership, got)
		}
	}
}

func TestPostRenderSetsAllFields(t *testing.T) {
	t.Parallel()
	var spec addonsv1.PostRender
	fill(reflect.ValueOf(&spec).Elem())
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := PostRender(object)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []any{*rendered, rendered.Patches[0], *rendered.Patches[0].Target, rendered.Images[0]} {
		if zero := zeroFields("", reflect.ValueOf(part)); len(zero) > 0 {
			t.Errorf("%T: not set: %v", part, zero)
		}
	}
	if rendered, err := PostRender(nil); rendered != nil || err != nil {
		t.Errorf("nil is converted to %v, %v", rendered, err)
	}
	if _, err := PostRender(map[string]any{"images": "x"}); err == nil || !strings.Contains(err.Error(), "postRender") {
		t.Errorf("a malformed object: %v", err)
	}
}

func TestUnsetOptionsAreDefaults(t *testing.T) {
	t.Parallel()
	want := model.Options{}
	for name, spec := range map[string]addonsv1.ReleaseOptions{
		"nothing": {},
		"empty": {
			Install: &addonsv1.InstallOptions{}, Upgrade: &addonsv1.UpgradeOptions{}, Rollback: &addonsv1.RollbackOptions{},
			Uninstall: &addonsv1.UninstallOptions{}, Test: &addonsv1.TestOptions{},
		},
		"defaults": {
			Install: &addonsv1.InstallOptions{CRDs: addonsv1.CRDPolicyCreate, DisableHooks: ptr.To(false)},
			Upgrade: &addonsv1.UpgradeOptions{CRDs: addonsv1.CRDPolicyCreate, ValuesPolicy: addonsv1.ValuesPolicyReset,
				Force: ptr.To(false)},
		},
	} {
		if got := OptionsOf(&spec); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	zero := OptionsOf(&addonsv1.ReleaseOptions{
		Install: &addonsv1.InstallOptions{CreateNamespace: ptr.To(false)},
		Upgrade: &addonsv1.UpgradeOptions{MaxHistory: ptr.To(int32(0))},
	})
	if zero.Install.CreateNamespace == nil || *zero.Install.CreateNamespace || zero.Upgrade.MaxHistory == nil ||
		*zero.Upgrade.MaxHistory != 0 {
		t.Errorf("false and zero count as unset: %+v", zero)
	}
}

// TestCRDPolicyOfManifests checks the default policy for CRDs, which depends on whether the artifact is a chart.
func TestCRDPolicyOfManifests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		format           addonsv1.ArtifactFormat
		options          addonsv1.ReleaseOptions
		install, upgrade model.CRDPolicy
	}{
		"chart": {"", addonsv1.ReleaseOptions{}, model.CRDsCreate, model.CRDsCreate},
		"manifests": {"Flux", addonsv1.ReleaseOptions{Install: &addonsv1.InstallOptions{}}, model.CRDsCreateReplace,
			model.CRDsCreateReplace},
		"set for installs": {"Flux",
			addonsv1.ReleaseOptions{Install: &addonsv1.InstallOptions{CRDs: addonsv1.CRDPolicyCreate}}, model.CRDsCreate,
			model.CRDsCreate},
		"set for upgrades": {"Flux", addonsv1.ReleaseOptions{Upgrade: &addonsv1.UpgradeOptions{CRDs: addonsv1.CRDPolicySkip}},
			model.CRDsCreate, model.CRDsSkip},
	} {
		release := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{
			Artifact: addonsv1.ResolvedArtifact{Digest: "sha256:1", Format: tc.format}, ReleaseOptions: tc.options,
		}}
		if _, got := DesiredOf(release); got.Install.CRDs != tc.install || got.Upgrade.CRDs != tc.upgrade {
			t.Errorf("%s: %q, %q", name, got.Install.CRDs, got.Upgrade.CRDs)
		}
	}
}

// TestDesiredAfterRecreation checks that the time at which a Cluster was re-created is not a part of the desired state.
// Otherwise, HelmOp would try a release again that is in sync.
func TestDesiredAfterRecreation(t *testing.T) {
	t.Parallel()
	release := &addonsv1.HelmOpRelease{}
	before, _ := DesiredOf(release)
	release.Status.ClusterRecreatedAt = metav1.Unix(1_800_000_000, 0)
	after, _ := DesiredOf(release)
	if !after.ClusterRecreatedAt.Equal(release.Status.ClusterRecreatedAt.Time) ||
		model.AttemptDigest(before) != model.AttemptDigest(after) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestPolicyOf(t *testing.T) {
	t.Parallel()
	if got, want := PolicyOf(&addonsv1.HelmOpReleaseSpec{}),
		(model.Policy{PendingTimeout: PendingTimeout}); !reflect.DeepEqual(got, want) {
		t.Errorf("unset: %+v", got)
	}
	spec := addonsv1.HelmOpReleaseSpec{ReleaseOptions: addonsv1.ReleaseOptions{
		Install: &addonsv1.InstallOptions{
			TakeOwnership: ptr.To(true), Adoption: addonsv1.AdoptionPolicyWhenUnchanged,
			Remediation: &addonsv1.InstallRemediation{Retries: ptr.To(int32(0)),
				Strategy: addonsv1.InstallRemediationUninstall},
		},
		Upgrade: &addonsv1.UpgradeOptions{
			Remediation: &addonsv1.UpgradeRemediation{Retries: ptr.To(int32(-1)), Strategy: addonsv1.UpgradeRemediationRollback},
		},
		Test:           &addonsv1.TestOptions{Mode: addonsv1.TestModeEnabled, IgnoreFailures: ptr.To(true)},
		DriftDetection: &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect},
	}}
	want := model.Policy{
		TakeOwnership: true, AdoptUnchangedOnly: true, PendingTimeout: PendingTimeout, CorrectDrift: true,
		Install: model.FailurePolicy{Retries: ptr.To(0), Remediate: model.RemediateUninstall},
		Upgrade: model.FailurePolicy{Retries: ptr.To(-1), Remediate: model.RemediateRollback},
		Test:    model.TestPolicy{Enabled: true, IgnoreFailures: true},
	}
	if got := PolicyOf(&spec); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestIsDone(t *testing.T) {
	t.Parallel()
	once := &addonsv1.HelmOpReleaseSpec{}
	once.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	for name, test := range map[string]struct {
		spec       *addonsv1.HelmOpReleaseSpec
		annotation string
		want       bool
	}{
		"installed once":         {once, "true", true},
		"not installed yet":      {once, "", false},
		"another strategy":       {&addonsv1.HelmOpReleaseSpec{}, "true", false},
		"an annotation of users": {once, "yes", false},
	} {
		release := &addonsv1.HelmOpRelease{}
		if test.annotation != "" {
			release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: test.annotation}
		}
		if got := IsDone(test.spec, release); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
