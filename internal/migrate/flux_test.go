// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const fluxSources = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: charts, namespace: fleet}
spec:
  interval: 5m
  url: oci://registry.example/charts/cilium
  ref: {semver: 1.18.x}
  secretRef: {name: registry}
  layerSelector: {mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}
  verify: {provider: cosign, matchOIDCIdentity: [{issuer: ^https://issuer.example$, subject: example}]}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: repository, namespace: fleet}
spec: {interval: 10m, type: oci, url: "oci://registry.example/charts"}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: shared, namespace: sources}
spec: {interval: 10m, type: oci, url: "oci://registry.example/charts"}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: identity, namespace: sources}
spec: {interval: 10m, url: "oci://registry.example/charts/app", ref: {tag: 1.0.0}, serviceAccountName: puller}
`

// fluxRelease is a HelmRelease in a Cluster.
func fluxRelease(name, cluster, spec string) string {
	return `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: ` + name + `, namespace: fleet}
spec:
  interval: 1h
  kubeConfig: {secretRef: {name: ` + cluster + `-kubeconfig}}
` + spec + `
status: {storageNamespace: kube-system, history: [{name: ` + name + `, namespace: kube-system, version: 4, status: deployed}]}
`
}

// fromFlux converts HelmReleases of the Clusters one and two.
func fromFlux(t *testing.T, releases []*unstructured.Unstructured, helmOps ...*addonsv1.HelmOp) *Plan {
	t.Helper()
	objects := FluxObjects{Releases: releases, Sources: parse(t, fluxSources), HelmOps: helmOps}
	for _, name := range []string{"one", "two"} {
		cluster := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name,
			Labels: map[string]string{}}}
		for _, helmOp := range helmOps {
			cluster.Labels[markKey(addonsv1.MigratedClusterLabelPrefix, helmOp.Name)] = "true"
		}
		objects.Clusters = append(objects.Clusters, cluster)
	}
	return FromFlux(objects)
}

// migratedHelmOp is a HelmOp that an earlier run made from a HelmRelease.
func migratedHelmOp(name, release string) *addonsv1.HelmOp {
	return newHelmOp("fleet", name, "HelmRelease/fleet/"+release)
}

func TestFromFlux(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	for name, test := range map[string]struct {
		releases []string
		want     map[string]string
		gaps     map[string][]string
	}{
		"releases that differ only in the Cluster become one HelmOp": {
			releases: []string{fluxRelease("one-cilium", "one", ref), fluxRelease("two-cilium", "two", ref)},
			want: map[string]string{"cilium": `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/cilium: "true"}}
install: {takeOwnership: true, adoption: WhenUnchanged, createNamespace: false}
release: {name: "{{ .ClusterName }}-cilium", namespace: kube-system}
source:
  url: oci://registry.example/charts/cilium
  interval: 5m
  ref: {semver: 1.18.x}
  secretRef: {name: registry}
  verify:
    provider: cosign
    identities: [{issuerRegExp: ".*(?:^https://issuer.example$).*", subjectRegExp: ".*(?:example).*"}]
upgrade: {maxHistory: 5, crds: Skip}
`},
		},
		"values, options, dependencies": {
			releases: []string{fluxRelease("base", "one", ref), fluxRelease("app", "one", `
  chart: {spec: {chart: app, version: 1.2.3, sourceRef: {kind: HelmRepository, name: repository}}}
  timeout: 3m
  maxHistory: 2
  dependsOn: [{name: base}, {name: other, namespace: other}]
  values: {text: "a {{ b }} c", list: ["{{"], number: 7}
  valuesFrom:
  - {kind: ConfigMap, name: first}
  - {kind: Secret, name: second, valuesKey: password, targetPath: a.b, literal: true}
  - {kind: ConfigMap, name: third, optional: true}
  install: {crds: CreateReplace, createNamespace: true, remediation: {retries: 3}}
  upgrade: {crds: Create, force: true, preserveValues: true, remediation: {retries: -1}}
  uninstall: {deletionPropagation: orphan, keepHistory: true}
  driftDetection: {mode: enabled, ignore: [{paths: [/spec/replicas], target: {kind: Deployment}}]}
  test: {enable: true, ignoreFailures: true}
  postRenderers:
  - kustomize: {patches: [{patch: "a: {{ b }}", target: {kind: Service}}], images: [{name: a, newTag: b}]}
  commonMetadata: {annotations: {a: b}}
`)},
			want: map[string]string{"base": "", "app": `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: "true"}}
dependsOn: [{name: base}]
driftDetection:
  mode: Correct
  ignore:
  - {paths: [/spec/replicas], target: {kind: Deployment}}
  - {paths: [""], target: {annotationSelector: "helm.toolkit.fluxcd.io/driftDetection in (disabled,Disabled)"}}
  - {paths: [""], target: {labelSelector: "helm.toolkit.fluxcd.io/driftDetection in (disabled,Disabled)"}}
health: {timeout: 3m}
install:
  crds: CreateReplace
  remediation: {retries: 3, strategy: Uninstall}
  takeOwnership: true
  adoption: WhenUnchanged
  timeout: 3m
overrides:
- name: target-paths
  clusterSelector: {}
  valuesFrom:
  - {kind: Secret, name: second, key: password, targetPath: a.b}
  - {kind: ConfigMap, name: third, optional: true}
postRender:
  commonMetadata:
    annotations: {a: b}
  images: [{name: a, newTag: b}]
  patches: [{patch: 'a: {{ "{{" }} b }}', target: {kind: Service}}]
release: {name: app, namespace: kube-system}
rollback: {timeout: 3m}
source: {url: oci://registry.example/charts/app, interval: 10m, ref: {tag: 1.2.3}}
test: {mode: Enabled, ignoreFailures: true, timeout: 3m}
uninstall: {deletionPropagation: Orphan, keepHistory: true, timeout: 3m}
upgrade:
  crds: Create
  force: true
  maxHistory: 2
  remediation: {retries: -1, strategy: Rollback}
  timeout: 3m
  valuesPolicy: Reuse
values: {text: 'a {{ "{{" }} b }} c', list: ['{{ "{{" }}'], number: 7}
valuesFrom: [{kind: ConfigMap, name: first}]
`},
			gaps: map[string][]string{"app": {
				"spec.install.remediation" + noUninstallation,
				"spec.dependsOn: other/other is not migrated to a HelmOp of this namespace; the release does not wait for it",
			}},
		},
		"a chart with a signature": {
			releases: []string{fluxRelease("app", "one", `
  chart:
    spec:
      chart: app
      version: 1.2.3
      sourceRef: {kind: HelmRepository, name: repository}
      verify: {provider: cosign, secretRef: {name: keys}}
`)},
			want: map[string]string{"app": `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: "true"}}
install: {takeOwnership: true, adoption: WhenUnchanged, createNamespace: false}
release: {name: app, namespace: kube-system}
source:
  url: oci://registry.example/charts/app
  interval: 10m
  ref: {tag: 1.2.3}
  verify: {provider: cosign, secretRef: {name: keys}}
upgrade: {maxHistory: 5, crds: Skip}
`},
		},
		"dependencies for the same Cluster": {
			releases: []string{fluxRelease("one-base", "one", ref), fluxRelease("two-base", "two", ref),
				fluxRelease("one-app", "one", ref+"\n  dependsOn: [{name: one-base}]"),
				fluxRelease("two-app", "two", ref+"\n  dependsOn: [{name: two-base}]")},
			want: map[string]string{"base": "", "app": ""},
		},
		"dependencies that differ": {
			releases: []string{fluxRelease("one-base", "one", ref), fluxRelease("two-base", "two", ref+`
  values: {a: b}`),
				fluxRelease("one-app", "one", ref+"\n  dependsOn: [{name: one-base}]"),
				fluxRelease("two-app", "two", ref+"\n  dependsOn: [{name: two-base}]")},
			want: map[string]string{"base": "", "base-2": "", "app": "", "app-2": ""},
		},
		"a dependency for another Cluster": {
			releases: []string{fluxRelease("one-base", "one", ref), fluxRelease("two-base", "two", ref),
				fluxRelease("one-app", "one", ref+"\n  dependsOn: [{name: one-base}]"),
				fluxRelease("two-app", "two", ref+"\n  dependsOn: [{name: one-base}]")},
			want: map[string]string{"base": "", "app": "", "app-2": ""},
		},
		"a circle of dependencies": {
			releases: []string{fluxRelease("one-a", "one", ref+"\n  dependsOn: [{name: one-b}]"),
				fluxRelease("one-b", "one", ref+"\n  dependsOn: [{name: one-a}]")},
			want: map[string]string{"a": "", "b": ""},
		},
		"values of each Cluster": {
			releases: []string{fluxRelease("one-cilium", "one", ref+`
  valuesFrom: [{kind: ConfigMap, name: one-values}, {kind: Secret, name: cilium-one, targetPath: a}]`),
				fluxRelease("two-cilium", "two", ref+`
  valuesFrom: [{kind: ConfigMap, name: two-values}, {kind: Secret, name: cilium-two, targetPath: a}]`)},
			want: map[string]string{"cilium": `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/cilium: "true"}}
install: {takeOwnership: true, adoption: WhenUnchanged, createNamespace: false}
overrides:
- name: target-paths
  clusterSelector: {}
  valuesFrom: [{kind: Secret, name: "cilium-{{ .ClusterName }}", targetPath: a}]
release: {name: "{{ .ClusterName }}-cilium", namespace: kube-system}
source:
  url: oci://registry.example/charts/cilium
  interval: 5m
  ref: {semver: 1.18.x}
  secretRef: {name: registry}
  verify:
    provider: cosign
    identities: [{issuerRegExp: ".*(?:^https://issuer.example$).*", subjectRegExp: ".*(?:example).*"}]
upgrade: {maxHistory: 5, crds: Skip}
valuesFrom: [{kind: ConfigMap, name: "{{ .ClusterName }}-values"}]
`},
			gaps: map[string][]string{"cilium": {
				`spec.valuesFrom: the value at "a" is text, also if it looks like a number or a boolean`}},
		},
		"values with the name of one Cluster for all Clusters": {
			releases: []string{fluxRelease("one-cilium", "one", ref+"\n  valuesFrom: [{kind: ConfigMap, name: one-values}]"),
				fluxRelease("two-cilium", "two", ref+"\n  valuesFrom: [{kind: ConfigMap, name: one-values}]")},
			want: map[string]string{"cilium": ""},
		},
		"values whose names do not follow the Clusters": {
			releases: []string{fluxRelease("one-cilium", "one", ref+"\n  valuesFrom: [{kind: ConfigMap, name: north}]"),
				fluxRelease("two-cilium", "two", ref+"\n  valuesFrom: [{kind: ConfigMap, name: south}]")},
			want: map[string]string{"cilium": "", "cilium-2": ""},
		},
		"other values are another HelmOp": {
			releases: []string{fluxRelease("one-cilium", "one", ref), fluxRelease("two-cilium", "two", ref+`
  values: {a: b}`)},
			want: map[string]string{"cilium": "", "cilium-2": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := fromFlux(t, objects(t, test.releases))
			if len(plan.Items) != len(test.want) {
				t.Fatalf("%d HelmOps", len(plan.Items))
			}
			for i := range plan.Items {
				item := &plan.Items[i]
				text, ok := test.want[item.HelmOp.Name]
				if !ok {
					t.Errorf("unexpected HelmOp %s", item.HelmOp.Name)
				}
				want := &addonsv1.HelmOp{}
				if err := yaml.UnmarshalStrict([]byte(text), &want.Spec); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(spec(t, want), spec(t, item.HelmOp)); text != "" && diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(test.gaps[item.HelmOp.Name], gaps(item)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestFluxExcludedObjects checks that HelmOp compares no object that Flux excludes from drift detection.
func TestFluxExcludedObjects(t *testing.T) {
	for text, want := range map[string]bool{
		"annotations: {helm.toolkit.fluxcd.io/driftDetection: disabled}": true,
		"labels: {helm.toolkit.fluxcd.io/driftDetection: Disabled}":      true,
		"labels: {helm.toolkit.fluxcd.io/driftDetection: enabled}":       false,
		"labels: {app: a}": false,
	} {
		object, isExcluded := parse(t, "metadata: {"+text+"}")[0], false
		for _, rule := range fluxExcluded {
			matcher, err := inventory.Selector{AnnotationSelector: rule.Target.AnnotationSelector,
				LabelSelector: rule.Target.LabelSelector}.Compile()
			if err != nil {
				t.Fatal(err)
			}
			isExcluded = isExcluded || matcher.Matches(object) && slices.Equal(rule.Paths, []string{""})
		}
		if isExcluded != want {
			t.Errorf("%s: excluded %t", text, isExcluded)
		}
	}
}

// TestFluxWaits checks how long HelmOp waits for the objects of a release, and what HelmOp does after a failed upgrade.
func TestFluxWaits(t *testing.T) {
	const (
		rollback = `{"retries":3,"strategy":"Rollback"}`
		noWait   = "spec.upgrade.disableWait: HelmOp waits for objects after installations, too, or never; it does not " +
			"monitor the health of the release, unless you remove spec.health.mode"
		noLast  = "spec.upgrade.remediation.remediateLastFailure: HelmOp rolls back after the last failed upgrade, too"
		noTests = "spec.upgrade.remediation.ignoreTestFailures: HelmOp also rolls back after failed tests; to prevent " +
			"this, set spec.test.ignoreFailures"
	)
	for lines, test := range map[string]struct{ health, remediation, gap string }{
		"maxHistory: 5":                          {"null", "null", ""},
		"timeout: 5m":                            {"null", "null", ""},
		"timeout: 30m":                           {`{"timeout":"30m0s"}`, "null", ""},
		"timeout: 1m\n  upgrade: {timeout: 40m}": {`{"timeout":"40m0s"}`, "null", ""},
		"timeout: 9m\n  upgrade: {timeout: 1m}":  {`{"timeout":"9m0s"}`, "null", ""},
		"install: {timeout: 1m}":                 {"null", "null", ""},
		"install: {disableWait: true}":           {"null", "null", ""},
		"install: {remediation: {}}":             {"null", "null", ""},
		"install: {remediation: {retries: -1}}":  {"null", "null", "spec.install.remediation" + noUninstallation},
		"install: {remediation: {remediateLastFailure: true}}": {"null", "null",
			"spec.install.remediation" + noUninstallation},
		"upgrade: {disableWait: true}":         {`{"mode":"Disabled"}`, "null", noWait},
		"upgrade: {remediation: {}}":           {"null", `{"retries":0,"strategy":"Retry"}`, ""},
		"upgrade: {remediation: {retries: 3}}": {"null", rollback, ""},
		"upgrade: {strategy: {name: RetryOnFailure}, remediation: {retries: 3}}": {"null",
			`{"retries":-1,"strategy":"Retry"}`, ""},
		"upgrade: {remediation: {remediateLastFailure: true}}": {"null", `{"retries":0,"strategy":"Rollback"}`, ""},
		"upgrade: {remediation: {retries: -1, remediateLastFailure: false}}": {"null",
			`{"retries":-1,"strategy":"Rollback"}`, ""},
		"upgrade: {remediation: {retries: 3, remediateLastFailure: false}}": {"null", rollback, noLast},
		"test: {enable: true}\n  upgrade: {remediation: {retries: 3, ignoreTestFailures: true}}": {"null", rollback,
			noTests},
		"healthCheckExprs: [{kind: A, apiVersion: b/v1, current: c}]": {
			`{"checks":[{"apiVersion":"b/v1","kind":"A","current":"c"}]}`, "null", ""},
	} {
		release := fluxRelease("app", "one", "  chartRef: {kind: OCIRepository, name: charts}\n  "+lines)
		item := &fromFlux(t, parse(t, release)).Items[0]
		health, _ := json.Marshal(item.HelmOp.Spec.Health)
		remediation, _ := json.Marshal(item.HelmOp.Spec.Upgrade.Remediation)
		if string(health) != test.health || string(remediation) != test.remediation {
			t.Errorf("%s: health %s, remediation %s", lines, health, remediation)
		}
		if got := strings.Join(gaps(item), "\n"); got != test.gap {
			t.Errorf("%s: gaps %s", lines, got)
		}
	}
}

// TestFluxNamespace checks whether HelmOp creates the namespace of a release in a new Cluster.
func TestFluxNamespace(t *testing.T) {
	for lines, want := range map[string]*bool{
		"install: {createNamespace: true}":                                   nil,
		"install: {createNamespace: false}":                                  ptr.To(false),
		"install: {createNamespace: true}\n  serviceAccountName: installer":  ptr.To(true),
		"install: {createNamespace: false}\n  serviceAccountName: installer": ptr.To(false),
	} {
		release := fluxRelease("app", "one", "  chartRef: {kind: OCIRepository, name: charts}\n  "+lines)
		got := fromFlux(t, parse(t, release)).Items[0].HelmOp.Spec.Install.CreateNamespace
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", lines, diff)
		}
	}
}

func objects(t *testing.T, texts []string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, text := range texts {
		all = append(all, parse(t, text)...)
	}
	return all
}

// otherRecords is the gap of a release whose records are not in its namespace.
func otherRecords(namespace string) string {
	return `!spec.storageNamespace: HelmOp stores the records of a release in the namespace of the release; move the ` +
		`Secrets "sh.helm.release.v1.app.*" in namespace "` + namespace + `" of the Cluster to namespace "kube-system", ` +
		`see docs/migration.md`
}

// keyLikeTemplate is the gap of a release with a key that HelmOp would read as a template.
const keyLikeTemplate = `!spec.values: HelmOp cannot read the template, spec.values["{{ a }}"]: a key is not a ` +
	`template; use spec.valuesTemplate for keys that depend on the Cluster; see docs/templates.md, and correct the ` +
	`template`

func TestFluxReleasesThatCannotBeMigrated(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	for name, test := range map[string]struct{ release, want string }{
		"no Cluster": {fluxRelease("app", "three", ref),
			`!spec.kubeConfig: the Secret "three-kubeconfig" is not the kubeconfig of a Cluster of namespace "fleet"`},
		"another kubeconfig": {strings.Replace(fluxRelease("app", "one", ref), "one-kubeconfig", "one", 1),
			`!spec.kubeConfig: the Secret "one" is not the kubeconfig of a Cluster of namespace "fleet"`},
		"a source that is not for charts": {fluxRelease("app", "one", "  chartRef: {kind: Bucket, name: charts}"),
			"!spec.chartRef: Bucket fleet/charts cannot be read, or is not a source of Helm charts that HelmOp can use"},
		"a key like a template": {fluxRelease("app", "one", ref+"\n  values: {\"{{ a }}\": b}"), keyLikeTemplate},
		"signed by anyone": {fluxRelease("app", "one", "  chart: {spec: {chart: app, version: 1.2.3, sourceRef: {"+
			"kind: HelmRepository, name: repository}, verify: {provider: cosign}}}"),
			"!spec.chart.spec.verify: it accepts every signer, and HelmOp requires identities; set secretRef, or use an " +
				"OCIRepository with matchOIDCIdentity"},
		"a key in another namespace": {fluxRelease("app", "one", "  chart: {spec: {chart: app, version: 1.2.3, sourceRef: {"+
			"kind: HelmRepository, name: shared, namespace: sources}, verify: {provider: cosign, secretRef: {name: keys}}}}"),
			"!spec.chart.spec.sourceRef: HelmOp reads Secrets and ServiceAccounts of its own namespace; copy those of " +
				"HelmRepository sources/shared to namespace \"fleet\", and the source too"},
		"a ServiceAccount in another namespace": {fluxRelease("app", "one", "  chartRef: {kind: OCIRepository, "+
			"name: identity, namespace: sources}"),
			"!spec.chartRef: HelmOp reads Secrets and ServiceAccounts of its own namespace; copy those of " +
				"OCIRepository sources/identity to namespace \"fleet\", and the source too"},
		"suspended": {fluxRelease("app", "one", ref+"\n  suspend: true"),
			"!spec.suspend: the object is suspended; resume it, so that its release is up to date when HelmOp adopts it"},
		"records in another namespace": {strings.Replace(fluxRelease("app", "one", ref), "storageNamespace: kube-system",
			"storageNamespace: records", 1), otherRecords("records")},
		"records in another namespace, by the spec": {strings.Replace(fluxRelease("app", "one", ref+"\n  storageNamespace: records"),
			"storageNamespace: kube-system, ", "", 1), otherRecords("records")},
		"records in the namespace of the object": {strings.Replace(fluxRelease("app", "one", ref),
			"storageNamespace: kube-system, ", "", 1), otherRecords("fleet")},
	} {
		t.Run(name, func(t *testing.T) {
			plan := fromFlux(t, parse(t, test.release))
			if diff := cmp.Diff([]string{test.want}, gaps(&plan.Items[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNamesOfExistingHelmOps converts the HelmRelease of a second Cluster when HelmOps exist.
func TestNamesOfExistingHelmOps(t *testing.T) {
	releases := parse(t, fluxRelease("two-cilium", "two", "  chartRef: {kind: OCIRepository, name: charts}"))
	one, two := map[string]string{"cluster": "one"}, map[string]string{"cluster": "two"}
	existing := func(name, release string, labels map[string]string) *addonsv1.HelmOp {
		helmOp := migratedHelmOp(name, release)
		helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: labels}
		return helmOp
	}
	for name, test := range map[string]struct {
		helmOps []*addonsv1.HelmOp
		want    string
	}{
		"no HelmOp":                    {nil, "cilium"},
		"a HelmOp of another Cluster":  {[]*addonsv1.HelmOp{existing("cilium", "one-cilium", one)}, "cilium-2"},
		"a HelmOp of the same Cluster": {[]*addonsv1.HelmOp{existing("cilium", "one-cilium", two)}, "cilium"},
		"a HelmOp of all Clusters":     {[]*addonsv1.HelmOp{existing("cilium", "one-cilium", nil)}, "cilium"},
		"a HelmOp of the same object":  {[]*addonsv1.HelmOp{existing("cilium", "two-cilium", one)}, "cilium"},
		"a HelmOp of another name":     {[]*addonsv1.HelmOp{existing("calico", "one-calico", one)}, "cilium"},
		"the second HelmOp has the object": {[]*addonsv1.HelmOp{existing("cilium", "one-cilium", one),
			existing("cilium-2", "two-cilium", two)}, "cilium-2"},
	} {
		objects := FluxObjects{Releases: releases, Sources: parse(t, fluxSources), HelmOps: test.helmOps}
		for _, cluster := range []string{"one", "two"} {
			objects.Clusters = append(objects.Clusters, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet", Name: cluster, Labels: map[string]string{"cluster": cluster}}})
		}
		if got := FromFlux(objects).Items[0].HelmOp.Name; got != test.want {
			t.Errorf("%s: HelmOp %s, want %s", name, got, test.want)
		}
	}
}

// TestBegunMigrationsKeepTheirHelmOps repeats a conversion after the first HelmOp of two is migrated.
func TestBegunMigrationsKeepTheirHelmOps(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	second := parse(t, fluxRelease("two-cilium", "two", ref))
	second[0].SetAnnotations(map[string]string{addonsv1.MigrationAnnotation: "Paused cilium-2"})
	plan := fromFlux(t, second)
	if got := plan.Items[0].HelmOp.Name; got != "cilium-2" {
		t.Errorf("HelmOp %s", got)
	}
}

// TestBegunMigrationsIgnoreDependencies repeats a conversion while the command deletes the dependencies of the objects.
func TestBegunMigrationsIgnoreDependencies(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	releases := objects(t, []string{fluxRelease("one-app", "one", ref+"\n  dependsOn: [{name: one-base}]"),
		fluxRelease("two-app", "two", ref+"\n  dependsOn: [{name: two-base}]"), fluxRelease("two-base", "two", ref)})
	for i, helmOp := range []string{"app", "app", "base"} {
		releases[i].SetAnnotations(map[string]string{addonsv1.MigrationAnnotation: "Paused " + helmOp})
	}
	plan := fromFlux(t, releases)
	got := map[string]int{}
	for i := range plan.Items {
		got[plan.Items[i].HelmOp.Name] = len(plan.Items[i].From)
		if len(plan.Items[i].Blocked()) > 0 {
			t.Errorf("gaps: %v", gaps(&plan.Items[i]))
		}
	}
	if diff := cmp.Diff(map[string]int{"app": 2, "base": 1}, got); diff != "" {
		t.Error(diff)
	}
}

// TestInterruptedPause repeats a conversion after the command was interrupted while it paused the objects of a HelmOp.
func TestInterruptedPause(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	base := []string{fluxRelease("one-base", "one", ref), fluxRelease("two-base", "two", ref)}
	app := []string{fluxRelease("one-app", "one", ref+"\n  dependsOn: [{name: one-base}]"),
		fluxRelease("two-app", "two", ref+"\n  dependsOn: [{name: two-base}]")}
	for name, test := range map[string]struct {
		releases []string
		begun    map[string]string
		helmOps  []*addonsv1.HelmOp
		want     map[string][]string
	}{
		"the first one is paused": {base, map[string]string{"one-base": "Paused base"}, nil,
			map[string][]string{"base": {"one-base", "two-base"}}},
		"the second one is paused": {base, map[string]string{"two-base": "Paused base"}, nil,
			map[string][]string{"base": {"two-base", "one-base"}}},
		"a HelmOp of an earlier run names the second one": {app,
			map[string]string{"one-app": "Paused app", "two-app": "Paused app"},
			[]*addonsv1.HelmOp{migratedHelmOp("app", "two-app")}, map[string][]string{"app": {"one-app", "two-app"}}},
		"a HelmOp of an earlier run names one that is deleted": {base, map[string]string{"two-base": "Paused base"},
			[]*addonsv1.HelmOp{migratedHelmOp("base", "zero-base")},
			map[string][]string{"base": {"two-base", "one-base"}}},
		"both have a HelmOp": {base, map[string]string{"one-base": "Paused base", "two-base": "Paused base-2"}, nil,
			map[string][]string{"base": {"one-base"}, "base-2": {"two-base"}}},
		"a dependency is not paused": {slices.Concat(base, app), map[string]string{"one-base": "Paused base",
			"one-app": "Paused app"}, nil,
			map[string][]string{"app": {"one-app", "two-app"}, "base": {"one-base", "two-base"}}},
		"a dependency is being deleted": {slices.Concat(base[:1], app),
			map[string]string{"one-base": "Detaching base", "one-app": "Paused app"},
			[]*addonsv1.HelmOp{migratedHelmOp("base", "one-base")},
			map[string][]string{"app": {"one-app", "two-app"}, "base": {"one-base"}}},
		"a dependency is migrated": {app, map[string]string{"one-app": "Paused app"},
			[]*addonsv1.HelmOp{migratedHelmOp("base", "one-base")},
			map[string][]string{"app": {"one-app", "two-app"}}},
	} {
		t.Run(name, func(t *testing.T) {
			releases := objects(t, test.releases)
			for _, release := range releases {
				if step := test.begun[release.GetName()]; step != "" {
					release.SetAnnotations(map[string]string{addonsv1.MigrationAnnotation: step})
				}
			}
			plan, got := fromFlux(t, releases, test.helmOps...), map[string][]string{}
			for i := range plan.Items {
				item := &plan.Items[i]
				for _, object := range item.From {
					got[item.HelmOp.Name] = append(got[item.HelmOp.Name], object.Name)
				}
				origin := item.From[0].Origin()
				for _, helmOp := range test.helmOps {
					if helmOp.Name == item.HelmOp.Name {
						origin = helmOp.Annotations[addonsv1.MigratedFromAnnotation]
					}
				}
				if item.Origin() != origin || len(item.Releases) != len(item.From) {
					t.Errorf("HelmOp %s is made from %s, releases %v", item.HelmOp.Name, item.Origin(), item.Releases)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMigratedDependency converts an object after an earlier run has migrated the objects on which it depends.
func TestMigratedDependency(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	releases := []string{fluxRelease("one-app", "one", ref+"\n  dependsOn: [{name: one-base}]"),
		fluxRelease("two-app", "two", ref+"\n  dependsOn: [{name: two-base}]")}
	for name, test := range map[string]struct {
		helmOps []*addonsv1.HelmOp
		want    []addonsv1.Dependency
		gaps    int
	}{
		"to one HelmOp":           {[]*addonsv1.HelmOp{migratedHelmOp("base", "one-base")}, []addonsv1.Dependency{{Name: "base"}}, 0},
		"to a HelmOp of a number": {[]*addonsv1.HelmOp{migratedHelmOp("base-2", "zero-base")}, []addonsv1.Dependency{{Name: "base-2"}}, 0},
		"not":                     {[]*addonsv1.HelmOp{migratedHelmOp("basement", "one-basement")}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			item := &fromFlux(t, objects(t, releases), test.helmOps...).Items[0]
			if diff := cmp.Diff(test.want, item.HelmOp.Spec.DependsOn); diff != "" {
				t.Error(diff)
			}
			if len(item.Gaps) != test.gaps {
				t.Errorf("gaps: %v", gaps(item))
			}
		})
	}
}

// TestBegunMigrationsThatDiffer has two objects of one HelmOp. A user changed one of them after the migration began.
func TestBegunMigrationsThatDiffer(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	releases := objects(t, []string{fluxRelease("one-cilium", "one", ref),
		fluxRelease("two-cilium", "two", ref+"\n  values: {a: b}")})
	for _, release := range releases {
		release.SetAnnotations(map[string]string{addonsv1.MigrationAnnotation: "Paused cilium"})
	}
	plan := fromFlux(t, releases)
	for i := range plan.Items {
		if got := plan.Items[i].HelmOp.Name; got != "cilium" {
			t.Errorf("HelmOp %s", got)
		}
	}
	if len(plan.Items[0].Blocked()) != 0 || len(plan.Items[1].Blocked()) != 1 {
		t.Errorf("gaps: %v, %v", gaps(&plan.Items[0]), gaps(&plan.Items[1]))
	}
}

// TestFluxReleaseUnderDeletion has objects that are being deleted: one by a migration, and others by other programs.
func TestFluxReleaseUnderDeletion(t *testing.T) {
	ref := "  chartRef: {kind: OCIRepository, name: charts}"
	for step, test := range map[string]struct {
		isSuspended bool
		blocks      int
	}{
		"Detaching cilium": {true, 0},
		"Paused cilium":    {true, 1},
		"":                 {false, 1},
	} {
		release := parse(t, fluxRelease("one-cilium", "one", ref))
		release[0].SetAnnotations(map[string]string{addonsv1.MigrationAnnotation: step})
		now := metav1.Now()
		release[0].SetDeletionTimestamp(&now)
		if test.isSuspended {
			if err := unstructured.SetNestedField(release[0].Object, true, "spec", "suspend"); err != nil {
				t.Fatal(err)
			}
		}
		plan := fromFlux(t, release)
		if got := len(plan.Items[0].Blocked()); got != test.blocks {
			t.Errorf("step %q: %v", step, gaps(&plan.Items[0]))
		}
	}
}

func TestManagedObjects(t *testing.T) {
	for name, test := range map[string]struct {
		meta         metav1.ObjectMeta
		gaps, blocks int
	}{
		"nobody":              {metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "a"}}, 0, 0},
		"Argo CD, by a label": {metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/instance": "a"}}, 1, 0},
		"Argo CD": {metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "a"}},
			1, 1},
		"Helm":        {metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": "a"}}, 1, 1},
		"ResourceSet": {metav1.ObjectMeta{Labels: map[string]string{"resourceset.fluxcd.controlplane.io/name": "a"}}, 1, 1},
		"an owner":    {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Cluster", Name: "a"}}}, 1, 1},
		"Flux":        {metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "a"}}, 1, 1},
	} {
		item := &Item{}
		item.blockManaged(&test.meta)
		if len(item.Gaps) != test.gaps || len(item.Blocked()) != test.blocks {
			t.Errorf("%s: %v", name, item.Gaps)
		}
	}
}

// TestManagedClusters has a Cluster in a repository that does not have the label that a HelmOp selects.
func TestManagedClusters(t *testing.T) {
	objects := FluxObjects{Releases: objects(t, []string{
		fluxRelease("one-cilium", "one", "  chartRef: {kind: OCIRepository, name: charts}"),
		fluxRelease("two-cilium", "two", "  chartRef: {kind: OCIRepository, name: charts}"),
	}), Sources: parse(t, fluxSources)}
	for name, labels := range map[string]map[string]string{
		"one": {"kustomize.toolkit.fluxcd.io/name": "clusters"}, "two": nil} {
		objects.Clusters = append(objects.Clusters, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet", Name: name, Labels: labels}})
	}
	plan := FromFlux(objects)
	want := []string{`Clusters: the Flux Kustomization "clusters" manages Cluster one; add the label ` +
		`migrated.addons.cluster.x-k8s.io/cilium there, too, because HelmOp uninstalls the release of a Cluster that loses ` +
		`the label`}
	if diff := cmp.Diff(want, gaps(&plan.Items[0])); diff != "" || len(plan.Items) != 1 {
		t.Errorf("%d items: %s", len(plan.Items), diff)
	}
}

func TestQualified(t *testing.T) {
	for _, test := range []struct{ text, cluster, qualified, unqualified string }{
		{"prod-1-calico", "prod-1", "{{ .ClusterName }}-calico", "calico"},
		{"calico-prod-1", "prod-1", "calico-{{ .ClusterName }}", "calico"},
		{"a-prod-1-b", "prod-1", "a-{{ .ClusterName }}-b", "a-b"},
		{"prod-1", "prod-1", "{{ .ClusterName }}", "prod-1"},
		{"prod-10-calico", "prod-1", "prod-10-calico", "prod-10-calico"},
		{"calico", "prod-1", "calico", "calico"},
	} {
		if got := qualified(test.text, test.cluster); got != test.qualified {
			t.Errorf("qualified(%q, %q) = %q", test.text, test.cluster, got)
		}
		if got := unqualified(test.text, test.cluster); got != test.unqualified {
			t.Errorf("unqualified(%q, %q) = %q", test.text, test.cluster, got)
		}
	}
}
