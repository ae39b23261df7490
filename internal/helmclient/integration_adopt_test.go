// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// adoptable returns a template that depends on the Helm revision, and two hooks. One hook has a delete policy. For the
// other hook, Helm sets the default policy when it runs the hook.
func adoptable() *chart.Chart {
	templates := helmtest.TwoConfigMaps()
	templates["revision.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: revision\ndata:\n" +
		"  key: \"{{ .Release.Revision }} {{ .Release.IsInstall }}\"\n"
	templates["hook.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations:\n" +
		"    helm.sh/hook: pre-install,pre-upgrade\n    helm.sh/hook-delete-policy: before-hook-creation\n"
	templates["plainhook.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain-hook\n  annotations:\n" +
		"    helm.sh/hook: pre-install\n"
	return helmtest.NewChart("1.0.0", templates)
}

// marker is a post-renderer that sets labels and annotations on all objects and sorts their fields, as the
// post-renderers of other tools do.
type marker struct{ labels, annotations map[string]string }

func (m marker) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := manifests.Decode(nil, rendered.String())
	if err != nil {
		return nil, err
	}
	out := &bytes.Buffer{}
	for _, object := range slices.Backward(objects) {
		for _, entries := range []struct {
			add map[string]string
			get func() map[string]string
			set func(map[string]string)
		}{{m.labels, object.GetLabels, object.SetLabels}, {m.annotations, object.GetAnnotations, object.SetAnnotations}} {
			all := entries.get()
			if all == nil {
				all = map[string]string{}
			}
			maps.Copy(all, entries.add)
			entries.set(all)
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out, nil
}

// adoptedDigest is the digest of the artifact of adoptable.
const adoptedDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// otherTools install a release with Helm's SDK, as other tools do.
var otherTools = map[string]func(b *bench, chrt *chart.Chart, values map[string]any){
	"helm install": func(b *bench, chrt *chart.Chart, values map[string]any) {
		b.installAs(chrt, values, func(*action.Install) {})
	},
	"helm install and two upgrades": func(b *bench, chrt *chart.Chart, values map[string]any) {
		b.installAs(chrt, map[string]any{"cidr": "before"}, func(*action.Install) {})
		b.upgradeAs(chrt, map[string]any{"cidr": "later"})
		b.upgradeAs(chrt, values)
	},
	// CAAPH sets no labels and uses the description of Helm.
	"CAAPH": func(b *bench, chrt *chart.Chart, values map[string]any) {
		b.installAs(chrt, values, func(install *action.Install) { install.Timeout, install.Atomic = 1<<40, false })
	},
	"Flux": func(b *bench, chrt *chart.Chart, values map[string]any) {
		b.installAs(chrt, values, func(install *action.Install) {
			install.Labels = map[string]string{"helm.toolkit.fluxcd.io/chart": "demo"}
			install.PostRenderer = marker{labels: map[string]string{
				"helm.toolkit.fluxcd.io/name": "demo", "helm.toolkit.fluxcd.io/namespace": "flux-system",
			}}
		})
	},
	// For a chart of an OCIRepository, Flux replaces the build metadata of the version.
	"Flux from a registry": func(b *bench, chrt *chart.Chart, values map[string]any) {
		chrt = rendering.CopyChart(chrt)
		chrt.Metadata.Version += "+" + adoptedDigest[:12]
		b.installAs(chrt, values, func(*action.Install) {})
	},
	"Fleet": func(b *bench, chrt *chart.Chart, values map[string]any) {
		b.installAs(chrt, values, func(install *action.Install) {
			install.PostRenderer = marker{labels: map[string]string{"objectset.rio.cattle.io/hash": "abc"},
				annotations: map[string]string{"objectset.rio.cattle.io/id": "default-demo"}}
		})
	},
	"another HelmOp": func(b *bench, chrt *chart.Chart, values map[string]any) {
		former := helmtest.DesiredFor(b.namespace, "demo", "a0", "v0")
		former.Owner, former.UID = "default.former", "uid-former"
		b.converge(former, chrt, values)
	},
}

func (b *bench) installAs(chrt *chart.Chart, values map[string]any, change func(*action.Install)) {
	b.t.Helper()
	install := action.NewInstall(b.human())
	install.ReleaseName, install.Namespace, install.CreateNamespace = "demo", b.namespace, true
	change(install)
	if _, err := install.Run(rendering.CopyChart(chrt), values); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) upgradeAs(chrt *chart.Chart, values map[string]any) {
	b.t.Helper()
	upgrade := action.NewUpgrade(b.human())
	upgrade.Namespace, upgrade.ResetValues = b.namespace, true
	if _, err := upgrade.Run("demo", rendering.CopyChart(chrt), values); err != nil {
		b.t.Fatal(err)
	}
}

// versions returns the resource versions of all objects of the namespace that a release may have, and of the records.
func (b *bench) versions() map[string]string {
	b.t.Helper()
	found := map[string]string{}
	configMaps, err := b.kube.CoreV1().ConfigMaps(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range configMaps.Items {
		found["ConfigMap "+configMaps.Items[i].Name] = configMaps.Items[i].ResourceVersion
	}
	secrets, err := b.kube.CoreV1().Secrets(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range secrets.Items {
		found["Secret "+secrets.Items[i].Name] = secrets.Items[i].ResourceVersion
	}
	return found
}

// TestIntegrationAdoptUnchanged checks the adoption of a release of another tool that would change nothing. It creates
// no Helm revision and writes no object of the chart. Only labels of the newest record change.
func TestIntegrationAdoptUnchanged(t *testing.T) {
	t.Parallel()
	for name, install := range otherTools {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			desired := helmtest.DesiredFor(b.namespace, "demo", adoptedDigest, "v1")
			chrt, values := adoptable(), map[string]any{"cidr": "ours"}
			chrt.Templates = append(chrt.Templates, &chart.File{Name: "templates/version.yaml",
				Data: []byte(helmtest.ConfigMap("version", "{{ .Chart.Version }}"))})
			install(b, chrt, values)
			newest, _ := b.observe(desired).Newest()
			secrets := b.kube.CoreV1().Secrets(b.namespace)
			key := "sh.helm.release.v1.demo.v" + map[bool]string{true: "3", false: "1"}[newest.Revision == 3]
			before, err := secrets.Get(t.Context(), key, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			versions := b.versions()

			policy := model.Policy{TakeOwnership: true, AdoptUnchangedOnly: true}
			plan, err := b.client.Plan(t.Context(), b.target, desired, policy, model.Past{}, b.options, chrt, values)
			if err != nil || plan.Action != model.ActionAdopt || len(plan.Changes)+len(plan.Hooks) != 0 {
				t.Errorf("plan %+v, %v", plan, err)
			}
			decision := b.decide(desired, policy)
			result, err := b.act(decision, desired, chrt, values)
			if err != nil {
				t.Fatalf("%+v: %v", decision, err)
			}
			if result.Revision != newest.Revision || result.Status != "deployed" || !result.StorageChanged ||
				result.ChartVersion != "1.0.0" && result.ChartVersion != "1.0.0+"+adoptedDigest[:12] {
				t.Errorf("result %+v", result)
			}
			after, err := secrets.Get(t.Context(), key, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for label, value := range before.Labels {
				if !strings.HasPrefix(label, model.LabelPrefix) && after.Labels[label] != value {
					t.Errorf("the label %s=%s is %q now", label, value, after.Labels[label])
				}
			}
			if !maps.EqualFunc(before.Data, after.Data, bytes.Equal) || before.UID != after.UID {
				t.Error("the content of the record changed")
			}
			versions["Secret "+key] = after.ResourceVersion
			if now := b.versions(); !maps.Equal(now, versions) {
				t.Errorf("objects changed: %v, before: %v", now, versions)
			}

			b.reconnect(-1)
			// The tests of the chart do not run, because the adoption is no upgrade.
			tested := model.Policy{Test: model.TestPolicy{Enabled: true}}
			if next := b.decide(desired, tested); next.State != model.StateInSync || next.Action != model.ActionNone {
				t.Errorf("after a restart: %+v", next)
			}
			// The release is a release of HelmOp: it is upgraded, rolled back and uninstalled like any other.
			desired.ValuesDigest = "v2"
			b.converge(desired, chrt, map[string]any{"cidr": "next"})
			b.wantConfigMap("demo-value", "next")
			b.wantConfigMap("version", "1.0.0")
			uninstall := decide.Uninstall(b.observe(desired), desired, model.Policy{}, helmtest.Now)
			if _, err := b.act(uninstall, desired, nil, nil); err != nil {
				t.Fatal(err)
			}
			b.wantNoConfigMap("demo-value")
			b.wantRecords(desired)
		})
	}
}

// TestIntegrationAdoptChanged checks that the release is not changed if its adoption would change something and the
// policy forbids changes. The error names the changes and contains no value. Without the policy, the release is
// upgraded.
func TestIntegrationAdoptChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// change changes the desired state or the cluster.
		change func(b *bench, chrt *chart.Chart, values map[string]any)
		want   string
	}{
		"values": {func(_ *bench, _ *chart.Chart, values map[string]any) { values["cidr"] = "secret-value" },
			"ConfigMap NS/demo-value (changed)"},
		"an object more": {func(_ *bench, chrt *chart.Chart, _ map[string]any) {
			chrt.Templates = append(chrt.Templates, &chart.File{Name: "templates/more.yaml",
				Data: []byte(helmtest.ConfigMap("more", "1"))})
		}, "ConfigMap NS/more (added)"},
		"an object less": {func(_ *bench, chrt *chart.Chart, _ map[string]any) {
			chrt.Templates = slices.DeleteFunc(chrt.Templates,
				func(file *chart.File) bool { return file.Name == "templates/first.yaml" })
		}, "ConfigMap NS/first (removed)"},
		"the hook": {func(_ *bench, chrt *chart.Chart, _ map[string]any) {
			for _, file := range chrt.Templates {
				file.Data = bytes.Replace(file.Data, []byte("pre-install,pre-upgrade"), []byte("pre-upgrade"), 1)
			}
		}, "hook ConfigMap NS/hook (changed)"},
		"the version of the chart": {func(_ *bench, chrt *chart.Chart, _ map[string]any) {
			chrt.Metadata.Version = "1.0.1"
		}, "chart demo 1.0.0 (becomes demo 1.0.1)"},
		"a CRD": {func(b *bench, chrt *chart.Chart, _ map[string]any) {
			chrt.Files = append(chrt.Files, &chart.File{Name: "crds/a.yaml",
				Data: []byte(helmtest.CrdOf(b.namespace+".adopt.test", "v1"))})
		}, "CustomResourceDefinition widgets.NS.adopt.test (added)"},
		"a label of the namespace": {func(b *bench, _ *chart.Chart, _ map[string]any) {
			b.options.Install.NamespaceLabels = map[string]string{"team": "a"}
		}, "Namespace NS (changed)"},
		"an object of another release": {func(b *bench, _ *chart.Chart, _ map[string]any) {
			b.patchConfigMap("first", `{"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}}`)
		}, "ConfigMap NS/first (belongs to release NS/other)"},
		"an object without the label": {func(b *bench, _ *chart.Chart, _ map[string]any) {
			b.patchConfigMap("first", `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`)
		}, "ConfigMap NS/first (lacks Helm's label or annotations)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
			chrt, values := adoptable(), map[string]any{"cidr": "ours"}
			otherTools["helm install"](b, chrt, map[string]any{"cidr": "ours"})
			tc.change(b, chrt, values)
			versions := b.versions()

			for policy, waits := range map[model.Policy]bool{{TakeOwnership: true, AdoptUnchangedOnly: true}: true,
				{TakeOwnership: true}: false} {
				plan, err := b.client.Plan(t.Context(), b.target, desired, policy, model.Past{}, b.options, chrt, values)
				if err != nil || (plan.Action == model.ActionRefuse) != waits ||
					strings.Contains(plan.Message, "AdoptionWouldChange") != waits {
					t.Errorf("plan %+v, %v", plan, err)
				}
			}
			decision := b.decide(desired, model.Policy{TakeOwnership: true, AdoptUnchangedOnly: true})
			b.cutter.Take()
			result, err := b.act(decision, desired, chrt, values)
			helmtest.WantError(t, err, helmerr.ErrWouldChange, false, strings.ReplaceAll(tc.want, "NS", b.namespace),
				"install.adoption", "kubectl helmop preview")
			if err != nil && strings.Contains(err.Error(), "secret-value") {
				t.Errorf("the error has a value: %v", err)
			}
			if err != nil && strings.Count(err.Error(), "ConfigMap")+strings.Count(err.Error(), "Namespace")+
				strings.Count(err.Error(), "Custom")+strings.Count(err.Error(), "chart demo") != 1 {
				t.Errorf("the error names more than one object: %v", err)
			}
			if now := b.versions(); result.StorageChanged || !maps.Equal(now, versions) {
				t.Errorf("changed: %+v, %v, before: %v", result, now, versions)
			}
			b.wantRecords(desired, "1 deployed")

			b.options.Upgrade.TakeOwnership = true
			decision = b.decide(desired, model.Policy{TakeOwnership: true})
			if result, err = b.act(decision, desired, chrt, values); err != nil || result.Revision != 2 {
				t.Errorf("with Upgrade: %+v, %v", result, err)
			}
			if next := b.decide(desired, model.Policy{}); next.State != model.StateInSync {
				t.Errorf("after the upgrade: %+v", next)
			}
		})
	}
}

// TestIntegrationAdoptDrifted checks that changed or deleted objects in the cluster do not prevent an adoption without
// changes. The adoption compares records. Changed objects are a matter of health and drift.
func TestIntegrationAdoptDrifted(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := adoptable(), map[string]any{"cidr": "ours"}
	otherTools["helm install"](b, chrt, values)
	b.patchConfigMap("first", `{"data": {"key": "by hand"}}`)
	if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "demo-value",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	policy := model.Policy{TakeOwnership: true, AdoptUnchangedOnly: true}
	if _, err := b.act(b.decide(desired, policy), desired, chrt, values); err != nil {
		t.Fatal(err)
	}
	b.wantConfigMap("first", "by hand")
	b.wantNoConfigMap("demo-value")
	b.wantRecords(desired, "1 deployed")
}

// TestIntegrationAdoptReusedValues checks that an adoption changes nothing if it uses the values of the release and has
// no own values.
func TestIntegrationAdoptReusedValues(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	otherTools["helm install"](b, adoptable(), map[string]any{"cidr": "by hand"})
	b.options.Upgrade.Values = model.ValuesResetThenReuse
	policy := model.Policy{TakeOwnership: true, AdoptUnchangedOnly: true}
	if _, err := b.act(b.decide(desired, policy), desired, adoptable(), nil); err != nil {
		t.Fatal(err)
	}
	b.wantConfigMap("demo-value", "by hand")
	b.wantRecords(desired, "1 deployed")
}

// TestIntegrationAdoptOvertaken checks that an adoption without changes is refused if the release changes between the
// observation and the label. It also checks that a lost response to the label has no effect.
func TestIntegrationAdoptOvertaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// meanwhile is a change before the label is written.
		meanwhile func(b *bench)
		lost      bool
		stale     bool
		records   []string
	}{
		"nothing":               {meanwhile: func(*bench) {}, records: []string{"1 deployed"}},
		"the response was lost": {meanwhile: func(*bench) {}, lost: true, records: []string{"1 deployed"}},
		"another label":         {meanwhile: func(b *bench) { b.labelRecord("team", "a") }, records: []string{"1 deployed"}},
		"adopted by another HelmOp": {meanwhile: func(b *bench) { b.labelRecord(model.LabelReleaseUID, "other") },
			stale: true, records: []string{"1 deployed"}},
		"upgraded with helm": {meanwhile: func(b *bench) { b.upgradeAs(adoptable(), map[string]any{"cidr": "later"}) },
			stale: true, records: []string{"2 deployed", "1 superseded"}},
		"uninstalled with helm": {meanwhile: func(b *bench) {
			if _, err := action.NewUninstall(b.human()).Run("demo"); err != nil {
				b.t.Fatal(err)
			}
		}, stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
			chrt, values := adoptable(), map[string]any{"cidr": "ours"}
			otherTools["helm install"](b, chrt, values)
			done := false
			config := sharedServer.Server(t).RESTConfig()
			config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
				return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
					if done || req.Method != http.MethodPatch {
						return base.RoundTrip(req)
					}
					done = true
					tc.meanwhile(b)
					response, err := base.RoundTrip(req)
					if tc.lost && err == nil {
						_ = response.Body.Close()
						return nil, helmtest.ErrCut
					}
					return response, err
				})
			}
			b.client, b.target.Config = New(testRunner), config
			decision := b.decide(desired, model.Policy{TakeOwnership: true, AdoptUnchangedOnly: true})
			result, err := b.act(decision, desired, chrt, values)
			if tc.stale {
				helmtest.WantError(t, err, helmerr.ErrStale, false)
			} else if err != nil || result.Revision != 1 {
				t.Errorf("%+v, %v", result, err)
			}
			if !done {
				t.Error("no label was written")
			}
			b.reconnect(-1)
			b.wantRecords(desired, tc.records...)
			if state := b.observe(desired).State(desired); !tc.stale && state != model.StateInSync {
				t.Errorf("the release is %s", state)
			}
		})
	}
}

func (b *bench) labelRecord(key, value string) {
	b.t.Helper()
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = b.kube.CoreV1().Secrets(b.namespace).Patch(b.t.Context(), "sh.helm.release.v1.demo.v1", types.MergePatchType,
		data, metav1.PatchOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}
