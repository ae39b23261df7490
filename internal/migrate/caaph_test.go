// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// parse reads YAML documents.
func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// spec returns the spec of a HelmOp as YAML.
func spec(t *testing.T, helmOp *addonsv1.HelmOp) string {
	t.Helper()
	data, err := yaml.Marshal(helmOp.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// gaps returns the gaps of an item. Gaps that block begin with "!".
func gaps(item *Item) []string {
	var all []string
	for _, gap := range item.Gaps {
		text := gap.String()
		if gap.Blocks {
			text = "!" + text
		}
		all = append(all, text)
	}
	return all
}

// proxy is a HelmChartProxy with its spec.
func proxy(spec string) string {
	return `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmChartProxy
metadata: {name: calico, namespace: fleet}
spec:
  clusterSelector: {matchLabels: {cni: calico}}
  chartName: tigera-operator
  repoURL: oci://registry.example/charts/
` + spec
}

// releaseProxy is a HelmReleaseProxy of the HelmChartProxy.
func releaseProxy(cluster, name, status string) string {
	return `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmReleaseProxy
metadata:
  name: tigera-operator-` + cluster + `-x2x4z
  namespace: fleet
  creationTimestamp: 2026-11-25T12:00:00Z
  labels: {helmreleaseproxy.addons.cluster.x-k8s.io/helmchartproxy-name: calico}
spec: {clusterRef: {name: ` + cluster + `, namespace: fleet}, releaseName: "` + name + `", namespace: tigera}
status: {status: ` + status + `, revision: 3}
`
}

func TestFromCAAPH(t *testing.T) {
	for name, test := range map[string]struct {
		proxy    string
		releases []string
		spec     string
		gaps     []string
	}{
		"a chart with values": {
			proxy: proxy(`
  releaseName: calico
  namespace: tigera
  version: v3.30.1
  valuesTemplate: "cidr: {{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }}"
`),
			releases: []string{releaseProxy("one", "calico", "deployed")},
			spec: `
clusterSelector: {matchLabels: {cni: calico}}
install: {takeOwnership: true, adoption: WhenUnchanged}
release: {name: calico, namespace: tigera}
source: {url: "oci://registry.example/charts/tigera-operator", ref: {tag: v3.30.1}}
valuesTemplate: "cidr: {{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }}"
upgrade: {crds: Skip}
`,
		},
		"a generated name, and the latest version": {
			proxy:    proxy("  namespace: tigera"),
			releases: []string{releaseProxy("one", "tigera-operator-1764111600", "deployed")},
			spec: `
clusterSelector: {matchLabels: {cni: calico}}
install: {takeOwnership: true, adoption: WhenUnchanged}
release:
  name: >-
    {{ if hasKey .ClusterAnnotations "release-name.addons.cluster.x-k8s.io/calico" }}{{ get .ClusterAnnotations
    "release-name.addons.cluster.x-k8s.io/calico" }}{{ else if gt .Cluster.metadata.creationTimestamp
    "2026-11-25T12:00:00Z" }}{{ "tigera-operator" }}{{ else }}{{ fail "the annotation
    release-name.addons.cluster.x-k8s.io/calico is missing: set it on the Cluster to the name of the release" }}{{ end }}
  namespace: tigera
source: {url: "oci://registry.example/charts/tigera-operator", ref: {semver: "*"}}
upgrade: {crds: Skip}
`,
		},
		"options": {
			proxy: proxy(`
  releaseName: calico
  version: ">=3.29 <3.31"
  options:
    disableHooks: true
    wait: true
    timeout: 7m
    skipCRDs: true
    disableOpenAPIValidation: true
    atomic: true
    install: {createNamespace: false}
    upgrade: {force: true, reuseValues: true, maxHistory: 3, cleanupOnFail: true}
    uninstall: {keepHistory: true, description: bye}
  credentials: {secret: {name: registry}, key: .dockerconfigjson}
  tlsConfig: {caSecret: {name: ca}}
`),
			spec: `
clusterSelector: {matchLabels: {cni: calico}}
health: {timeout: 7m0s}
install:
  createNamespace: false
  crds: Skip
  disableHooks: true
  disableOpenAPIValidation: true
  remediation: {strategy: Uninstall}
  takeOwnership: true
  adoption: WhenUnchanged
  timeout: 7m0s
release: {name: calico, namespace: default}
rollback: {timeout: 7m0s}
source:
  url: oci://registry.example/charts/tigera-operator
  ref: {semver: ">=3.29 <3.31"}
  secretRef: {name: registry}
  certSecretRef: {name: ca}
uninstall: {disableHooks: true, keepHistory: true, timeout: 7m0s}
upgrade:
  cleanupOnFail: true
  crds: Skip
  disableHooks: true
  disableOpenAPIValidation: true
  force: true
  maxHistory: 3
  remediation: {strategy: Rollback}
  timeout: 7m0s
  valuesPolicy: Reuse
`,
			gaps: []string{"spec.options.atomic" + noUninstallation,
				"spec.options.uninstall.description: HelmOp writes its own description of an uninstallation"},
		},
		"installed once": {
			proxy: proxy("  releaseName: calico\n  version: 1.0.0\n  reconcileStrategy: InstallOnce"),
			spec: `
clusterSelector: {matchLabels: {cni: calico}}
deletionPolicy: Orphan
install: {takeOwnership: true, adoption: WhenUnchanged}
reconcileStrategy: InstallOnce
release: {name: calico, namespace: default}
source: {url: "oci://registry.example/charts/tigera-operator", ref: {tag: 1.0.0}}
upgrade: {crds: Skip}
`,
			gaps: []string{"spec.reconcileStrategy: a release that was changed since its installation is not adopted; then " +
				"delete the object instead: CAAPH does not uninstall its releases"},
		},
		"gaps that block": {
			proxy: proxy(`
  releaseName: calico
  version: 1.0.0
  valuesTemplate: "now: {{ now }}"
  credentials: {secret: {name: registry, namespace: other}, key: config.json}
  tlsConfig: {insecureSkipTLSVerify: true}
`),
			releases: []string{releaseProxy("one", "", "pending-install"), releaseProxy("two", "calico", "failed")},
			spec: `
clusterSelector: {matchLabels: {cni: calico}}
install: {takeOwnership: true, adoption: WhenUnchanged}
release: {name: calico, namespace: default}
source:
  url: oci://registry.example/charts/tigera-operator
  ref: {tag: 1.0.0}
  secretRef: {name: registry-dockerconfigjson}
valuesTemplate: "now: {{ now }}"
upgrade: {crds: Skip}
`,
			gaps: []string{
				"!HelmReleaseProxy tigera-operator-one-x2x4z of Cluster one: it has no release yet; wait until CAAPH has " +
					"installed the release",
				"HelmReleaseProxy tigera-operator-two-x2x4z of Cluster two: its release is failed: HelmOp cannot adopt it " +
					"without a new Helm revision",
				"!spec.credentials: HelmOp reads a Secret of type kubernetes.io/dockerconfigjson in its namespace; create the " +
					"Secret fleet/registry-dockerconfigjson with the key \"config.json\" of the Secret other/registry as " +
					".dockerconfigjson",
				"!spec.tlsConfig.insecureSkipTLSVerify: HelmOp verifies the certificate of the registry; create a Secret with " +
					"the certificate of its authority in ca.crt, and set spec.tlsConfig.caSecret",
				"!spec.valuesTemplate: HelmOp cannot read the template, spec.valuesTemplate line 1: the function \"now\" is " +
					"not available: the output of a template must depend on the Cluster only, not on time, randomness, files or " +
					"the network; see docs/templates.md, and correct the template",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var releases []*unstructured.Unstructured
			for _, release := range test.releases {
				releases = append(releases, parse(t, release)...)
			}
			plan := FromCAAPH(parse(t, test.proxy), releases)
			item := &plan.Items[0]
			if item.HelmOp.Namespace != "fleet" || item.HelmOp.Name != "calico" ||
				item.HelmOp.Annotations[addonsv1.MigratedFromAnnotation] != "HelmChartProxy/fleet/calico" {
				t.Errorf("metadata: %v", item.HelmOp.ObjectMeta)
			}
			want := &addonsv1.HelmOp{}
			if err := yaml.UnmarshalStrict([]byte(test.spec), &want.Spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(spec(t, want), spec(t, item.HelmOp)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.gaps, gaps(item)); diff != "" {
				t.Error(diff)
			}
			if len(item.Releases) != len(test.releases) {
				t.Errorf("%d releases", len(item.Releases))
			}
		})
	}
}

// TestCAAPHValuesPolicy checks which option takes precedence if several are set.
// TestCAAPHWatchFilter has a HelmChartProxy for a manager with the flag --watch-filter.
func TestCAAPHWatchFilter(t *testing.T) {
	labels := map[string]string{clusterv1.WatchLabel: "tenant"}
	for name, test := range map[string]struct{ labels, want map[string]string }{
		"filtered": {map[string]string{clusterv1.WatchLabel: "tenant", "mine": "true"}, labels},
		"other":    {map[string]string{"mine": "true"}, nil},
	} {
		charts := parse(t, proxy("  releaseName: calico"))
		charts[0].SetLabels(test.labels)
		if diff := cmp.Diff(test.want, FromCAAPH(charts, nil).Items[0].HelmOp.Labels); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCAAPHValuesPolicy(t *testing.T) {
	for options, want := range map[string]addonsv1.ValuesPolicy{
		"resetValues: true":          "",
		"reuseValues: true":          addonsv1.ValuesPolicyReuse,
		"resetThenReuseValues: true": addonsv1.ValuesPolicyResetThenReuse,
		"resetValues: true, reuseValues: true, resetThenReuseValues: true": "",
		"reuseValues: true, resetThenReuseValues: true":                    addonsv1.ValuesPolicyReuse,
	} {
		item := FromCAAPH(parse(t, proxy("  options: {upgrade: {maxHistory: 3, "+options+"}}")), nil).Items[0]
		if got := item.HelmOp.Spec.Upgrade.ValuesPolicy; got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

func TestGeneratedNamesAreMarks(t *testing.T) {
	plan := FromCAAPH(parse(t, proxy("")), append(parse(t, releaseProxy("two", "tigera-operator-2", "deployed")),
		parse(t, releaseProxy("one", "tigera-operator-1", "deployed"))...))
	key := "release-name.addons.cluster.x-k8s.io/calico"
	var got []string
	for _, mark := range plan.Items[0].Marks {
		if mark.Key != key || mark.IsLabel {
			t.Errorf("mark %v", mark)
		}
		got = append(got, mark.Cluster.Name+" "+mark.Value)
	}
	if diff := cmp.Diff([]string{"one tigera-operator-1", "two tigera-operator-2"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestGeneratedName renders the release name in Clusters with and without the annotation. A Cluster that is older than
// the releases must have the annotation: without it, the Cluster is not up to date, and gets no release with another
// name.
func TestGeneratedName(t *testing.T) {
	plan := FromCAAPH(parse(t, proxy("")), parse(t, releaseProxy("one", "tigera-operator-1", "deployed")))
	name := plan.Items[0].HelmOp.Spec.Release.Name
	program, err := templating.Compile(templating.Spec{ReleaseName: name, ReleaseNamespace: "tigera"})
	if err != nil {
		t.Fatal(err)
	}
	for text, test := range map[string]struct{ created, annotations, want string }{
		"annotated": {"2026-11-01T12:00:00Z", `release-name.addons.cluster.x-k8s.io/calico: tigera-operator-1`,
			"tigera-operator-1"},
		"new":   {"2026-11-25T12:00:01Z", "other: value", "tigera-operator"},
		"stale": {"2026-11-25T12:00:00Z", "other: value", "is missing"},
	} {
		cluster := parse(t, "metadata: {name: one, creationTimestamp: \""+test.created+"\", annotations: {"+
			test.annotations+"}}")[0]
		got, err := program.RenderRelease(t.Context(), templating.Objects{Cluster: cluster.Object})
		if err != nil {
			got.Name = err.Error()
		}
		if !strings.Contains(got.Name, test.want) || (err != nil) != (text == "stale") {
			t.Errorf("%s: got %q", text, got.Name)
		}
	}
}

func TestManagedObjectsAreNotMigrated(t *testing.T) {
	objects := parse(t, proxy("  releaseName: calico"))
	objects[0].SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet"})
	objects[0].SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""})
	item := &FromCAAPH(objects, nil).Items[0]
	if blocked := item.Blocked(); len(blocked) != 2 {
		t.Errorf("gaps: %v", blocked)
	}
	// The pause of a migration that was interrupted does not block.
	objects[0].SetLabels(nil)
	objects[0].SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": "", addonsv1.MigrationAnnotation: "Paused"})
	if blocked := FromCAAPH(objects, nil).Items[0].Blocked(); len(blocked) != 0 {
		t.Errorf("gaps: %v", blocked)
	}
}

// TestPausedHelmReleaseProxy has a release that a user has paused. --undo would end this pause.
func TestPausedHelmReleaseProxy(t *testing.T) {
	release := parse(t, releaseProxy("one", "calico", "deployed"))
	release[0].SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""})
	want := []string{"!HelmReleaseProxy tigera-operator-one-x2x4z of Cluster one: the annotation cluster.x-k8s.io/paused" +
		" pauses the object; remove the annotation, so that its release is up to date when HelmOp adopts it"}
	chart := parse(t, proxy("  releaseName: calico"))
	if diff := cmp.Diff(want, gaps(&FromCAAPH(chart, release).Items[0])); diff != "" {
		t.Error(diff)
	}
	release[0].SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": "true",
		addonsv1.MigrationAnnotation: "Paused calico"})
	if got := gaps(&FromCAAPH(chart, release).Items[0]); len(got) > 0 {
		t.Errorf("gaps: %v", got)
	}
}

func TestChartRepository(t *testing.T) {
	text := strings.Replace(proxy("  releaseName: calico"), "oci://registry.example/charts/",
		"https://docs.tigera.io/calico/charts", 1)
	item := &FromCAAPH(parse(t, text), nil).Items[0]
	source := item.HelmOp.Spec.Source
	if source.URL != "https://docs.tigera.io/calico/charts" || source.Chart != "tigera-operator" || len(item.Gaps) > 0 {
		t.Errorf("%v, gaps %v", source, item.Gaps)
	}
}

func TestRefOf(t *testing.T) {
	for version, want := range map[string]addonsv1.ArtifactReference{
		"":             {Semver: "*"},
		"1.2.3":        {Tag: "1.2.3"},
		"v1.2.3-rc.1":  {Tag: "v1.2.3-rc.1"},
		"1.2.3+build":  {Tag: "1.2.3+build"},
		"1.2":          {Semver: "1.2"},
		"~1.2":         {Semver: "~1.2"},
		">=1.2.0 <1.4": {Semver: ">=1.2.0 <1.4"},
	} {
		if got := refOf(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}
