// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// fleetClusters are clusters of Fleet. The first two were imported by its add-on provider for Cluster API, the third
// one by another program. The last one has no Cluster of Cluster API.
const fleetClusters = `
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata:
  name: one
  namespace: fleet
  labels: {env: prod, zone: "1.10"}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: one, uid: a}]
spec: {kubeConfigSecret: one-kubeconfig, templateValues: {Cluster: {}, ControlPlane: {}, InfrastructureCluster: {}}}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata:
  name: two
  namespace: fleet
  labels: {env: test}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: two, uid: b}]
spec: {kubeConfigSecret: two-kubeconfig}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata: {name: c-three, namespace: fleet, labels: {env: prod, site: north}}
spec: {kubeConfigSecret: three-kubeconfig, templateValues: {own: 1}}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata: {name: local, namespace: fleet}
spec: {kubeConfigSecret: local-cluster}
`

const fleetGroups = `
apiVersion: fleet.cattle.io/v1alpha1
kind: ClusterGroup
metadata: {name: production, namespace: fleet, labels: {tier: high}}
spec: {selector: {matchLabels: {env: prod}}}
`

// fleetObject is a HelmOp of Fleet.
func fleetObject(name, spec string) string {
	return `
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata: {name: ` + name + `, namespace: fleet}
status: {version: 1.4.2}
spec:
` + spec
}

// fleetDeployed is a BundleDeployment of a HelmOp in a cluster; changes are lines of its status.
func fleetDeployed(helmOp, cluster string, changes ...string) string {
	status := "{appliedDeploymentID: a, ready: true, nonModified: true, release: 'apps/" + helmOp + ":3'}"
	if len(changes) > 0 {
		status = changes[0]
	}
	return `
apiVersion: fleet.cattle.io/v1alpha1
kind: BundleDeployment
metadata:
  name: ` + helmOp + `
  namespace: cluster-fleet-` + cluster + `
  labels:
    fleet.cattle.io/bundle-name: ` + helmOp + `
    fleet.cattle.io/bundle-namespace: fleet
    fleet.cattle.io/cluster: ` + cluster + `
    fleet.cattle.io/cluster-namespace: fleet
spec: {deploymentID: a, stagedDeploymentID: a}
status: ` + status
}

// capiClusters are the metadata of Clusters of Cluster API.
func capiClusters() []*metav1.PartialObjectMetadata {
	var all []*metav1.PartialObjectMetadata
	for name, labels := range map[string]map[string]string{
		"one": {"env": "prod", "zone": "1.10"}, "two": {"env": "test"}, "three": {"env": "prod"},
	} {
		all = append(all, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name,
			Labels: labels}})
	}
	return all
}

// fleetPlan converts HelmOps of Fleet, in the order of their names.
func fleetPlan(t *testing.T, helmOps, deployments []string) *Plan {
	t.Helper()
	return FromFleet(FleetObjects{HelmOps: objects(t, helmOps), Deployments: objects(t, deployments),
		Clusters: parse(t, fleetClusters), Groups: parse(t, fleetGroups), Secrets: map[string]FleetSecret{
			"registry": {}, "private": ReadFleetSecret(map[string][]byte{"cacerts": []byte("a"), "basicHTTP": []byte("true")}),
		}}, capiClusters())
}

const keepCRDs = "spec.deleteCRDResources: Fleet keeps CustomResourceDefinitions that are templates of the chart; " +
	"HelmOp uninstalls them unless they have the annotation helm.sh/resource-policy: keep, see spec.postRender"

const textStaysText = "spec.helm.values: HelmOp keeps text from a Cluster as text, and Fleet reads the result as " +
	"YAML: the label 1.10 is the number 1.1 in Fleet; use fromYaml where the preview shows such a difference"

// TestFleetNamespace checks whether HelmOp creates the namespace of a release in a new Cluster. Some specs have a
// target with a ServiceAccount.
func TestFleetNamespace(t *testing.T) {
	const target = "targets: [{clusterSelector: {}, serviceAccount: deployer}]"
	for lines, want := range map[string]struct{ spec, override *bool }{
		"serviceAccount: deployer":                           {spec: ptr.To(true)},
		"serviceAccount: deployer\n  createNamespace: false": {spec: ptr.To(false)},
		"createNamespace: true":                              {spec: ptr.To(true)},
		"keepResources: true":                                {},
		target:                                               {override: ptr.To(true)},
		target + "\n  createNamespace: false":                {spec: ptr.To(false)},
	} {
		spec := "  helm: {repo: \"oci://registry.example/charts/app\", version: 1.2.3}\n  " + lines
		plan := fleetPlan(t, []string{fleetObject("app", spec)}, []string{fleetDeployed("app", "one")})
		got := &plan.Items[0].HelmOp.Spec
		if diff := cmp.Diff(want.spec, got.Install.CreateNamespace); diff != "" {
			t.Errorf("%s: %s", lines, diff)
		}
		var override *bool
		for i := range got.Overrides {
			if install := got.Overrides[i].Install; install != nil {
				override = install.CreateNamespace
			}
		}
		if diff := cmp.Diff(want.override, override); diff != "" {
			t.Errorf("%s: override: %s", lines, diff)
		}
	}
}

func TestFromFleet(t *testing.T) {
	for name, test := range map[string]struct {
		spec     string
		clusters []string
		want     string
		gaps     []string
		marks    map[string]string
	}{
		"a registry": {
			spec: `
  helm: {repo: "oci://registry.example/charts/app", version: 1.2.3}
  deleteCRDResources: true
  targets: [{clusterSelector: {}, helm: {timeoutSeconds: -1}}]
`,
			clusters: []string{"one", "two"},
			want: `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: "true"}}
driftDetection: {mode: Warn}
install: {takeOwnership: true}
paused: true
release: {name: app, namespace: apps}
source: {url: oci://registry.example/charts/app, ref: {tag: 1.2.3}}
templateDelimiters: Dollar
upgrade: {crds: Skip, maxHistory: 2}
`,
			marks: map[string]string{"one": "true", "two": "true"},
		},
		"all options": {
			spec: `
  defaultNamespace: apps
  namespace: apps
  deleteNamespace: true
  keepResources: true
  createNamespace: false
  serviceAccount: deployer
  correctDrift: {enabled: true, force: true}
  ignore: {conditions: [{type: Active}]}
  pollingInterval: 5m
  helmSecretName: registry
  namespaceLabels: {a: b}
  downstreamResources: [{kind: Secret, name: second}]
  diff:
    comparePatches:
    - {apiVersion: apps/v1, kind: Deployment, name: a.b, namespace: apps, jsonPointers: [/spec/replicas]}
    - apiVersion: v1
      kind: Service
      name: app
      operations: [{op: ignore}, {op: remove, path: /spec/ports}, {op: add}]
  rolloutStrategy: {maxUnavailable: 10%, partitions: [{name: first}]}
  dependsOn: [{name: base, acceptedStates: [Ready, Modified]}, {name: other}, {selector: {}}]
  helm:
    repo: https://charts.example
    chart: app
    version: 1.4.2
    releaseName: app
    timeoutSeconds: 180
    atomic: true
    force: true
    maxHistory: 4
    skipSchemaValidation: true
    valuesFiles: [a.yaml]
    valuesFrom: [{secretKeyRef: {name: second, key: a}, configMapKeyRef: {name: first}}]
  targets: [{clusterSelector: {}, namespaceAnnotations: {c: d}}]
`,
			clusters: []string{"one"},
			want: `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: "true"}}
deletionPolicy: Orphan
dependsOn: [{name: base}]
driftDetection:
  mode: Correct
  ignore:
  - {paths: [/spec/replicas], target: {group: apps, version: v1, kind: Deployment, name: 'a\.b', namespace: apps}}
  - {paths: ["", /spec/ports], target: {version: v1, kind: Service, name: ".*(?:app).*"}}
health: {timeout: 3m}
impersonateServiceAccountName: deployer
install:
  createNamespace: false
  disableSchemaValidation: true
  namespaceMetadata: {labels: {a: b}, annotations: {c: d}}
  takeOwnership: true
  timeout: 3m
overrides:
- name: values-from
  clusterSelector: {}
  valuesFrom: [{kind: ConfigMap, name: first, key: values.yaml}, {kind: Secret, name: second, key: a}]
paused: true
release: {name: app, namespace: apps}
rollback: {timeout: 3m}
rollout: {maxUnavailable: 10%}
source: {url: https://charts.example, chart: app, interval: 5m, ref: {tag: 1.4.2}, secretRef: {name: registry}}
templateDelimiters: Dollar
upgrade:
  crds: Skip
  disableSchemaValidation: true
  force: true
  maxHistory: 4
  remediation: {strategy: Rollback}
  timeout: 3m
`,
			gaps: []string{
				`spec.serviceAccount: HelmOp impersonates the ServiceAccount "deployer" in the namespace of the release, and ` +
					`Fleet in that of its agent; create the ServiceAccount there`,
				"spec.correctDrift.force: HelmOp does not re-create an object to correct it",
				`spec.diff: HelmOp has no operation "add"; list the path of the field in spec.driftDetection.ignore`,
				"spec.namespace: Fleet moves all objects to this namespace, and HelmOp does not move objects for which " +
					"the chart names another one; the preview shows them",
				"spec.deleteNamespace: HelmOp never deletes a namespace",
				keepCRDs,
				"spec.ignore: HelmOp has no conditions to ignore; write spec.health.checks for objects that are never ready",
				"spec.rolloutStrategy.partitions: write spec.rollout.waves instead: a wave selects Clusters by their labels, " +
					"and Clusters without a wave are last",
				"spec.helm.valuesFiles: Fleet ignores them for a chart of a repository, and so does HelmOp",
				`!spec.helm.valuesFrom: Fleet reads the ConfigMap "first" in the Clusters, and HelmOp reads it in namespace ` +
					`"fleet" of the management cluster; create it there, and add it to spec.downstreamResources, so that both ` +
					`read the same`,
				`spec.downstreamResources: the copies of the Secret "second" stay in the Clusters, and nothing updates them ` +
					`any more`,
				`spec.dependsOn: HelmOp waits until the release of "base" is Ready, and not for other states`,
				`spec.dependsOn: the Bundle "other" is not migrated to a HelmOp of this namespace; the release does not wait ` +
					`for it`,
				"spec.dependsOn: HelmOp depends on HelmOps by their names; the release does not wait for Bundles of a selector",
			},
		},
		"targets with differences": {
			spec: `
  deleteCRDResources: true
  helm:
    repo: oci://registry.example/charts/app
    version: 1.2.3
    values: {a: 1, b: "${ .ClusterName }", site: {kept: false}}
    templateValues: {site: "x: ${ .ClusterLabels.env }"}
    valuesFrom: [{configMapKeyRef: {name: first}}]
  downstreamResources: [{kind: configmap, name: first}]
  correctDrift: {enabled: true}
  targets:
  - name: canary
    clusterName: two
    correctDrift: {enabled: false}
    helm: {version: 1.3.0, values: {a: 2, site: no}, valuesFrom: [{configMapKeyRef: {name: first, key: b}}]}
  - clusterGroup: production
    clusterSelector: {matchLabels: {zone: "1.10"}}
    helm: {timeoutSeconds: 60}
  - clusterGroupSelector: {matchLabels: {tier: high}}
`,
			clusters: []string{"one", "two"},
			want: `
clusterSelector: {matchExpressions: [{key: migrated.addons.cluster.x-k8s.io/app, operator: Exists}]}
driftDetection: {mode: Correct}
install: {takeOwnership: true}
overrides:
- name: canary
  clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: canary}}
  driftDetection: {mode: Warn}
  ref: {tag: 1.3.0}
  values: {a: 2}
- name: target001
  clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: target001}}
  health: {timeout: 1m}
  install: {timeout: 1m}
  upgrade: {timeout: 1m}
- name: values-from
  clusterSelector: {}
  valuesFrom: [{kind: ConfigMap, name: first, key: values.yaml}]
- name: canary-values-from
  clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: canary}}
  valuesFrom: [{kind: ConfigMap, name: first, key: b}]
paused: true
release: {name: app, namespace: apps}
source: {url: oci://registry.example/charts/app, ref: {tag: 1.2.3}}
templateDelimiters: Dollar
upgrade: {crds: Skip, maxHistory: 2}
values: {a: 1, b: "${ .ClusterName }"}
valuesTemplate: |
  site:
    x: ${ .ClusterLabels.env }
`,
			gaps: []string{
				`spec.downstreamResources: the copies of the configmap "first" stay in the Clusters, and nothing updates them ` +
					`any more`, textStaysText,
			},
			marks: map[string]string{"one": "target001", "two": "canary"},
		},
		"a private registry": {
			spec: `
  deleteCRDResources: true
  helmSecretName: private
  helm: {repo: "oci://registry.example/charts/app", version: 1.2.3}
`,
			clusters: []string{"one"},
			want: `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: "true"}}
driftDetection: {mode: Warn}
install: {takeOwnership: true}
paused: true
release: {name: app, namespace: apps}
source:
  url: oci://registry.example/charts/app
  ref: {tag: 1.2.3}
  insecure: true
  secretRef: {name: private-dockerconfigjson}
  certSecretRef: {name: private-ca}
templateDelimiters: Dollar
upgrade: {crds: Skip, maxHistory: 2}
`,
			gaps: []string{
				`!spec.helmSecretName: HelmOp reads the credentials of a registry in a Secret of type ` +
					`kubernetes.io/dockerconfigjson; create the Secret fleet/private-dockerconfigjson with the username and the ` +
					`password of the Secret "private"`,
				`!spec.helmSecretName: HelmOp reads certificates of authorities in the key ca.crt; create the Secret ` +
					`fleet/private-ca with the value of cacerts of the Secret "private"`,
			},
		},
		"no templates": {
			spec: `
  deleteCRDResources: true
  helm:
    repo: oci://registry.example/charts/app
    version: v1.4.2
    disablePreProcess: true
    values: {a: "{{ b }} ${c}", list: [global.fleet.clusterLabels.env], env: global.fleet.clusterLabels.env}
    templateValues: {c: d}
`,
			clusters: []string{"one"},
			want: `
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/app: "true"}}
driftDetection: {mode: Warn}
install: {takeOwnership: true}
paused: true
release: {name: app, namespace: apps}
source: {url: oci://registry.example/charts/app, ref: {tag: v1.4.2}}
upgrade: {crds: Skip, maxHistory: 2}
values:
  a: '{{ "{{" }} b }} ${c}'
  env: '{{ get .ClusterLabels "env" | default "" }}'
  list: [global.fleet.clusterLabels.env]
`,
			gaps: []string{
				"spec.helm.templateValues: disablePreProcess is set, so that Fleet ignores them",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var deployments []string
			for _, cluster := range test.clusters {
				deployments = append(deployments, fleetDeployed("app", cluster))
			}
			base := fleetObject("base", "  helm: {repo: 'oci://registry.example/charts/base', version: 1.0.0}\n")
			plan := fleetPlan(t, []string{fleetObject("app", test.spec), base}, deployments)
			item := &plan.Items[0]
			want := &addonsv1.HelmOp{}
			if err := yaml.UnmarshalStrict([]byte(test.want), &want.Spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(spec(t, want), spec(t, item.HelmOp)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.gaps, gaps(item)); diff != "" {
				t.Error(diff)
			}
			marks := map[string]string{}
			for _, mark := range item.Marks {
				marks[mark.Cluster.Name] = mark.Value
			}
			if diff := cmp.Diff(test.marks, marks); test.marks != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFleetReleases(t *testing.T) {
	helmOp := fleetObject("app", "  helm: {repo: 'oci://registry.example/charts/app', version: 1.0.0}\n")
	plan := fleetPlan(t, []string{helmOp}, []string{fleetDeployed("app", "c-three"),
		fleetDeployed("app", "one"), fleetDeployed("other", "two")})
	var got []string
	for _, release := range plan.Items[0].Releases {
		got = append(got, release.Cluster.String()+" "+release.Namespace+"/"+release.Name+" "+release.Owner.String())
	}
	want := []string{"fleet/one apps/app Fleet BundleDeployment cluster-fleet-one/app",
		"fleet/three apps/app Fleet BundleDeployment cluster-fleet-c-three/app"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if title := plan.Items[0].Title(); title != "Fleet HelmOp fleet/app" {
		t.Errorf("title %q", title)
	}
}

func TestFleetHelmOpsThatCannotBeMigrated(t *testing.T) {
	helm := "  deleteCRDResources: true\n  helm: {repo: 'oci://registry.example/charts/app', version: 1.0.0"
	one := fleetDeployed("app", "one")
	for name, test := range map[string]struct {
		spec        string
		deployments []string
		want        string
	}{
		"no chart":   {"  paused: false\n", []string{one}, "spec.helm: the object names no chart"},
		"no release": {helm + "}\n", nil, "spec.targets: it has no release in a Cluster"},
		"a cluster that is not one of Cluster API": {helm + "}\n", []string{one, fleetDeployed("app", "local")},
			`Fleet's Cluster fleet/local is not a Cluster of Cluster API in namespace "fleet"`},
		"an unknown cluster": {helm + "}\n", []string{one, fleetDeployed("app", "gone")},
			"Fleet's Cluster fleet/gone is not in the namespace of the object"},
		"not deployed yet": {helm + "}\n", []string{fleetDeployed("app", "one",
			"{appliedDeploymentID: old, ready: true, release: 'apps/app:3'}")}, "the agent has not deployed the newest options"},
		"failed": {helm + "}\n", []string{one, fleetDeployed("app", "two", "{appliedDeploymentID: a}")},
			"the agent could not deploy it"},
		"not ready": {helm + "}\n", []string{fleetDeployed("app", "one",
			"{appliedDeploymentID: a, release: 'apps/app:3'}")}, "its objects are not ready"},
		"a range": {"  deleteCRDResources: true\n  helm: {repo: 'oci://registry.example/charts/app', version: 1.x}\n",
			[]string{one}, "set spec.helm.version to 1.4.2, remove spec.pollingInterval"},
		"any version": {"  helm: {repo: 'oci://registry.example/charts/app', version: '*'}\n", []string{one},
			"set spec.helm.version to 1.4.2"},
		"no version with an interval": {"  pollingInterval: 5m\n  helm: {repo: 'oci://registry.example/charts/app'}\n",
			[]string{one}, "set spec.helm.version to 1.4.2"},
		"a target that is kept": {helm + "}\n  targets: [{clusterSelector: {}, keepResources: true}]\n", []string{one},
			"spec.targets[0].keepResources: "},
		"a target without the timeout": {helm + ", timeoutSeconds: 60}\n" +
			"  targets: [{clusterSelector: {}, helm: {timeoutSeconds: -1}}]\n", []string{one},
			"spec.targets[0].helm.timeoutSeconds: a number below 0 removes"},
		"a range of a target": {helm + "}\n  targets: [{clusterSelector: {}, helm: {version: 1.x}}]\n", []string{one},
			"spec.targets[0].helm.version: it is not an exact version"},
		"paused":   {"  paused: true\n" + helm + "}\n", []string{one}, "spec.paused: the object is paused"},
		"no check": {"  insecureSkipTLSVerify: true\n" + helm + "}\n", []string{one}, "verifies the certificate"},
		"an archive": {"  helm: {chart: 'https://charts.example/app-1.0.0.tgz', version: 1.0.0}\n", []string{one},
			"not from the address of an archive"},
		"a Secret for a registry": {"  helmSecretName: registry\n" + helm + "}\n", []string{one},
			"create the Secret fleet/registry-dockerconfigjson"},
		"a Secret that cannot be read": {"  helmSecretName: gone\n  helm: {repo: 'https://charts.example', chart: app, " +
			"version: 1.0.0}\n", []string{one}, `the Secret "gone" cannot be read`},
		"a template as a key": {helm + ", values: {a: {'${ .ClusterName }': b}}}\n", []string{one},
			"a key is not a template"},
		"an unknown function": {helm + ", values: {a: '${ now }'}}\n", []string{one}, "HelmOp cannot read the template"},
		"an unknown function in templateValues": {helm + ", templateValues: {a: '${ uuidv4 }'}}\n", []string{one},
			"HelmOp cannot read the template"},
		"an unknown function of a target": {helm + "}\n  targets: [{clusterSelector: {}, helm: {values: {a: '${ now }'}}}]\n",
			[]string{one}, "HelmOp cannot read the template"},
		"another name": {helm + ", values: {a: '${ .ClusterName }'}}\n", []string{fleetDeployed("app", "c-three")},
			`which is "c-three" in Fleet and "three" in HelmOp`},
		"another label": {helm + ", values: {a: '${ .ClusterLabels.site }'}}\n", []string{fleetDeployed("app", "c-three")},
			`templates read the label "site" of Fleet's Cluster c-three`},
		"another root": {helm + ", values: {a: '${ .ClusterValues.own }'}}\n", []string{fleetDeployed("app", "c-three")},
			"templates read .ClusterValues.own"},
		"names that differ": {helm + "}\n", []string{one, fleetDeployed("app", "two",
			"{appliedDeploymentID: a, ready: true, nonModified: true, release: 'apps/two:1'}")},
			"the releases have different names or namespaces"},
		"another chart of a target": {helm + "}\n  targets: [{clusterSelector: {}, helm: {repo: 'oci://other.example/a'}}]\n",
			[]string{one}, "make an object of its own for this chart"},
		"templateValues twice": {helm + ", templateValues: {a: b}}\n" +
			"  targets: [{clusterSelector: {}, helm: {templateValues: {a: c}}}]\n", []string{one}, `Fleet replaces the key "a"`},
		"no target any more": {helm + "}\n  targets: [{clusterName: two, helm: {timeoutSeconds: 1}}]\n", []string{one},
			"no target selects Fleet's Cluster one any more"},
	} {
		t.Run(name, func(t *testing.T) {
			item := &fleetPlan(t, []string{fleetObject("app", test.spec)}, test.deployments).Items[0]
			blocked := item.Blocked()
			if len(blocked) != 1 || !strings.Contains(blocked[0].String(), test.want) {
				t.Errorf("%q", gaps(item))
			}
		})
	}
}

// TestFleetTargetNames has targets whose overrides would have the same names.
func TestFleetTargetNames(t *testing.T) {
	targets := []fleetTarget{{Name: "canary"}, {Name: "canary"}, {}, {Name: "target002"}, {Name: "target004"},
		{Name: "values-from"}, {Name: "canary-values-from"}, {Name: "Big"}, {Name: "target-a"}}
	var names []string
	for at := range targets {
		names = append(names, targetName(targets, at))
	}
	if diff := cmp.Diff([]string{"canary", "target001", "target002", "target003", "target004", "target005", "target006",
		"target007", "target-a"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestBegunFleetMigration has a HelmOp whose release the migration itself has made outdated.
func TestBegunFleetMigration(t *testing.T) {
	helmOp := parse(t, fleetObject("app", `
  keepResources: true
  deleteCRDResources: true
  helm: {repo: "oci://registry.example/charts/app", version: 1.0.0}
`))
	helmOp[0].SetAnnotations(map[string]string{addonsv1.MigrationAnnotation: "Paused app",
		addonsv1.MigrationKeptAnnotation: "true"})
	outdated := fleetDeployed("app", "one", "{appliedDeploymentID: old, release: 'apps/app:3'}")
	plan := FromFleet(FleetObjects{HelmOps: helmOp, Deployments: parse(t, outdated), Clusters: parse(t, fleetClusters)},
		capiClusters())
	if item := &plan.Items[0]; len(item.Gaps) > 0 || item.HelmOp.Spec.DeletionPolicy != "" {
		t.Errorf("%q, deletionPolicy %q", gaps(item), item.HelmOp.Spec.DeletionPolicy)
	}
}

func TestContinueFleet(t *testing.T) {
	key := addonsv1.MigratedClusterLabelPrefix + "/app"
	for name, test := range map[string]struct {
		source  string
		labeled []string
		want    string
	}{
		"all":             {"2/2", []string{"one", "two"}, ""},
		"one of two":      {"2/2", []string{"one"}, "1 of the Clusters with a release do not have the label " + key},
		"none":            {"2/2", nil, "2 of the Clusters"},
		"no number":       {"", []string{"one"}, ""},
		"none, no number": {"", nil, "1 of the Clusters"},
	} {
		helmOp := newHelmOp("fleet", "app", "HelmOp/fleet/app")
		helmOp.Annotations[addonsv1.MigrationAnnotation] = "Installing app"
		helmOp.Annotations[addonsv1.MigrationSourceAnnotation] = test.source
		clusters := capiClusters()
		for _, cluster := range clusters {
			if slices.Contains(test.labeled, cluster.Name) {
				cluster.Labels[key] = "true"
			}
		}
		item, ok := ContinueFleet(helmOp, clusters)
		if !ok || len(item.Releases) != len(test.labeled) {
			t.Errorf("%s: %t, %v", name, ok, item.Releases)
		}
		blocked := item.Blocked()
		if (test.want == "") != (len(blocked) == 0) || test.want != "" && !strings.Contains(blocked[0].Text, test.want) {
			t.Errorf("%s: %v", name, blocked)
		}
	}
}

func TestFleetKeeps(t *testing.T) {
	for name, test := range map[string]struct {
		keep   bool
		status string
		want   string
	}{
		"kept":         {true, "{appliedDeploymentID: a, ready: true, release: 'apps/app:3'}", ""},
		"not passed":   {false, "{appliedDeploymentID: a, ready: true, release: 'apps/app:3'}", "has not passed on"},
		"not applied":  {true, "{appliedDeploymentID: b, ready: true, release: 'apps/app:3'}", "newest options"},
		"apply failed": {true, "{appliedDeploymentID: a, ready: true}", "could not deploy"},
	} {
		object := parse(t, fleetDeployed("app", "one", test.status))[0]
		if err := unstructured.SetNestedField(object.Object, test.keep, "spec", "options", "keepResources"); err != nil {
			t.Fatal(err)
		}
		keeps, missing := FleetKeeps(object)
		if keeps != (test.want == "") || !strings.Contains(missing, test.want) {
			t.Errorf("%s: %t, %q", name, keeps, missing)
		}
	}
}

func TestFleetRecordKeeps(t *testing.T) {
	release := &Release{Owner: Object{Name: "app"}, Version: "1.0.0"}
	for name, test := range map[string]struct {
		change func(*Record)
		want   string
	}{
		"kept":             {func(*Record) {}, ""},
		"another spelling": {func(r *Record) { r.Version = "v1.0.0" }, ""},
		"a newer version":  {func(r *Record) { r.Version = "1.1.0" }, "has version 1.1.0 of the chart"},
		"failed":           {func(r *Record) { r.Status = "failed" }, "is failed"},
		"of another tool":  {func(r *Record) { delete(r.ChartAnnotations, fleetBundleAnnotation) }, "is not by Fleet"},
		"not kept":         {func(r *Record) { delete(r.ChartAnnotations, fleetKeepAnnotation) }, "have the option"},
	} {
		record := &Record{Version: "1.0.0", Status: "deployed", ChartAnnotations: map[string]string{
			fleetBundleAnnotation: "app", fleetKeepAnnotation: "true"}}
		test.change(record)
		keeps, missing := FleetRecordKeeps(release, record)
		if keeps != (test.want == "") || !strings.Contains(missing, test.want) {
			t.Errorf("%s: %t, %q", name, keeps, missing)
		}
	}
}

// TestFleetVersions has targets with their own versions.
func TestFleetVersions(t *testing.T) {
	helmOp := fleetObject("app", "  helm: {repo: 'oci://registry.example/charts/app', version: 1.0.0}\n"+
		"  targets: [{clusterName: two, helm: {version: 1.1.0}}, {clusterSelector: {}}]\n")
	plan := fleetPlan(t, []string{helmOp}, []string{fleetDeployed("app", "one"), fleetDeployed("app", "two")})
	got := map[string]string{}
	for _, release := range plan.Items[0].Releases {
		got[release.Cluster.Name] = release.Version
	}
	if diff := cmp.Diff(map[string]string{"one": "1.0.0", "two": "1.1.0"}, got); diff != "" {
		t.Error(diff)
	}
}

// renderAsFleet renders values by the rules of Fleet. The values are one template. Each key of templateValues is
// another template, whose result replaces the value of the key.
func renderAsFleet(t *testing.T, helm *fleetHelm, root map[string]any) map[string]any {
	t.Helper()
	render := func(text string, into any) {
		parsed, err := template.New("").Funcs(sprig.TxtFuncMap()).Option("missingkey=error").Delims("${", "}").Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var result bytes.Buffer
		if err := parsed.Execute(&result, root); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(result.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	text, err := yaml.Marshal(helm.Values)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	render(string(text), &values)
	for key, text := range helm.TemplateValues {
		var value any
		render(text, &value)
		values[key] = value
	}
	return values
}

// TestFleetValuesRenderAlike renders the values of HelmOps of Fleet by Fleet's rules and by HelmOp.
func TestFleetValuesRenderAlike(t *testing.T) {
	cluster := map[string]any{
		"metadata": map[string]any{"name": "one", "namespace": "fleet", "labels": map[string]any{"env": "prod"}},
		"spec": map[string]any{"clusterNetwork": map[string]any{"pods": map[string]any{
			"cidrBlocks": []any{"10.0.0.0/16", "fd00::/64"}}}},
	}
	root := map[string]any{"ClusterName": "one", "ClusterNamespace": "fleet",
		"ClusterLabels": map[string]any{"env": "prod"}, "ClusterAnnotations": map[string]any{},
		"ClusterValues": map[string]any{"Cluster": cluster}}
	for name, helm := range map[string]string{
		"Calico of Fleet's add-on provider": `
templateValues:
  installation: |-
    cni:
      type: Calico
      ipam:
        type: HostLocal
    calicoNetwork:
      bgp: Disabled
      mtu: 1350
      ipPools:
        ${- range $cidr := .ClusterValues.Cluster.spec.clusterNetwork.pods.cidrBlocks }
        - cidr: "${ $cidr }"
          encapsulation: None
          natOutgoing: Enabled
          nodeSelector: all()${- end}
`,
		"values": `
values:
  name: "app-${ .ClusterName }"
  deep: {list: ["a", "${ .ClusterLabels.env }"], number: 7, none: true}
  literal: '{{ .Values.a }} ${ printf "%c{" 36 }HOME}'
`,
		"templateValues replace values": `
values: {a: {kept: false}, b: 1}
templateValues: {a: "c: ${ .ClusterNamespace }", scalar: "${ .ClusterName }", list: "- a\n- b"}
`,
		"indentation": `
templateValues:
  a: |
    # pods
    pods: ${ toJson .ClusterValues.Cluster.spec.clusterNetwork.pods.cidrBlocks }
    text: |
      first

      second
    c: ${ if eq .ClusterLabels.env "prod" }yes${ else }no${ end }
    block: |${ .ClusterName | nindent 2 }
  "a key": "1"
`,
	} {
		t.Run(name, func(t *testing.T) {
			decoded := &fleetHelm{}
			if err := yaml.Unmarshal([]byte(helm), decoded); err != nil {
				t.Fatal(err)
			}
			item := &Item{}
			values, text := item.fleetValues("spec.helm", decoded, false, nil)
			program, err := templating.Compile(templating.Spec{ReleaseName: "app", ReleaseNamespace: "apps",
				Values: rawOf(values), ValuesTemplate: text, Delimiters: templating.Dollar})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			result, err := program.Render(t.Context(), templating.Objects{Cluster: cluster})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			want, err := yaml.Marshal(renderAsFleet(t, decoded, root))
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(result.Values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
			if len(item.Gaps) > 0 || len(slices.Collect(maps.Keys(result.Values))) == 0 {
				t.Errorf("%v", item.Gaps)
			}
		})
	}
}

// TestFleetMigratedDependency has three dependencies: one that an earlier run migrated, one with the same name that it
// did not migrate, and one of the object on itself.
func TestFleetMigratedDependency(t *testing.T) {
	app := fleetObject("app", `
  helm: {repo: "oci://registry.example/charts/app", version: 1.0.0}
  dependsOn: [{name: base}, {name: other}, {name: app}]
`)
	plan := FromFleet(FleetObjects{HelmOps: parse(t, app), Deployments: parse(t, fleetDeployed("app", "one")),
		Clusters: parse(t, fleetClusters), Migrated: []*addonsv1.HelmOp{newHelmOp("fleet", "base", "HelmOp/fleet/base"),
			newHelmOp("fleet", "other", ""), newHelmOp("fleet", "app", "HelmOp/fleet/app")}}, capiClusters())
	item := &plan.Items[0]
	if diff := cmp.Diff([]addonsv1.Dependency{{Name: "base"}}, item.HelmOp.Spec.DependsOn); diff != "" {
		t.Error(diff)
	}
	missing := 0
	for _, gap := range item.Gaps {
		if gap.Field == "spec.dependsOn" {
			missing++
		}
	}
	if missing != 2 {
		t.Errorf("gaps: %q", gaps(item))
	}
}
