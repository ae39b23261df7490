// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationForceRecreatesImmutableObjects checks that force re-creates only objects with changed immutable
// fields, and no objects that hold data.
func TestIntegrationForceRecreatesImmutableObjects(t *testing.T) {
	b := newBench(t)
	templates := func(app, size string) map[string]string {
		return map[string]string{"value.yaml": helmtest.ValueConfigMap,
			"moving.yaml":  strings.ReplaceAll(cutDeployment("1"), "app: a}", "app: "+app+"}"),
			"staying.yaml": strings.ReplaceAll(cutDeployment(app), "name: deployment", "name: staying"),
			"data.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec:\n  accessModes: " +
				"[ReadWriteOnce]\n" +
				"  storageClassName: " + size + "\n  resources: {requests: {storage: 1Gi}}\n"}
	}
	made := func(version, app, size string) *chart.Chart { return helmtest.NewChart(version, templates(app, size)) }
	run := b.newRun(made("1.0.0", "a", "one"), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	moving, staying := b.deploymentUID("deployment"), b.deploymentUID("staying")

	run.options.Upgrade.Force = true
	run.desired.OptionsDigest = model.OptionsDigest(run.options)
	run.want("a2", made("2.0.0", "b", "one"))
	run.mustSettle(t)
	if b.deploymentUID("deployment") == moving || b.deploymentUID("staying") != staying {
		t.Errorf("deployment was %s, is %s; staying was %s, is %s", moving, b.deploymentUID("deployment"), staying,
			b.deploymentUID("staying"))
	}
	b.wantRecords(run.desired, "2 deployed", "1 superseded")

	claim := "/api/v1/namespaces/" + b.namespace + "/persistentvolumeclaims/data"
	before := b.get(claim).GetUID()
	run.want("a3", made("3.0.0", "b", "two"))
	_, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true,
		`PersistentVolumeClaim "data" cannot be changed in place, and force does not delete it`)
	if b.get(claim).GetUID() != before {
		t.Error("the claim was re-created")
	}
}

// TestIntegrationForcedObjectsStayAfterFailure checks that cleanupOnFail deletes the objects that a failed action
// created, and not those that force re-created.
func TestIntegrationForcedObjectsStayAfterFailure(t *testing.T) {
	b := newBench(t)
	templates := func(field, port string) map[string]string {
		return map[string]string{"forced.yaml": strings.ReplaceAll(forcedConfigMap, "FIELD", field),
			"service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: " + port + "}]}\n"}
	}
	run := b.newRun(helmtest.NewChart("1.0.0", templates("1", "80")), nil)
	run.options.Upgrade.Force, run.options.Upgrade.CleanupOnFail = true, true
	run.desired.OptionsDigest = model.OptionsDigest(run.options)
	run.mustSettle(t)

	configMaps := "/api/v1/namespaces/" + b.namespace + "/configmaps/"
	before := b.get(configMaps + "forced").GetUID()
	changed := templates("2", "99999")
	changed["new.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n"
	run.want("a2", helmtest.NewChart("2.0.0", changed))
	_, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true, "must be between 1 and 65535")
	b.wantRecords(run.desired, "2 failed", "1 deployed")
	if forced := b.get(configMaps + "forced"); forced.GetUID() == before || forced.GetUID() == "" {
		t.Errorf("the forced object is %v", forced)
	}
	_, err = b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "new", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the new object still exists: %v", err)
	}
}

// forceCase is an object with a changed immutable field. NAMESPACE is replaced by the namespace of the test, and FIELD
// by the value of the field.
type forceCase struct {
	path, manifest string
	before, after  string
	// meanwhile is a change by another process before the update with force.
	meanwhile string
	// refusal is the reason why the object is not re-created. It is empty if the object is re-created.
	refusal string
}

const (
	forcedConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forced}\nimmutable: true\ndata: {key: " +
		"\"FIELD\"}\n"
	forcedStatefulSet = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: forced}\nspec:\n  serviceName: " +
		"\"FIELD\"\n" +
		"  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n" +
		"    spec: {containers: [{name: a, image: registry.invalid/a}]}\n"
	deletesClaims = "  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}\n"
)

func forceCases() map[string]forceCase {
	const namespaced = "/namespaces/NAMESPACE/"
	cases := map[string]forceCase{
		"config-map": {path: "/api/v1" + namespaced + "configmaps/forced", manifest: forcedConfigMap, before: "1",
			after: "2"},
		"job": {path: "/apis/batch/v1" + namespaced + "jobs/forced", before: "1", after: "2",
			manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: forced}\nspec:\n  suspend: true\n  template:\n" +
				"    spec: {restartPolicy: Never, containers: [{name: a, image: \"registry.invalid/a:FIELD\"}]}\n"},
		"role-binding": {path: "/apis/rbac.authorization.k8s.io/v1" + namespaced + "rolebindings/forced", before: "one",
			after: "two",
			manifest: "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: forced}\n" +
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: FIELD}\n"},
		"storage-class": {path: "/apis/storage.k8s.io/v1/storageclasses/NAMESPACE", before: "one", after: "two",
			manifest: "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NAMESPACE}\nprovisioner: " +
				"registry.invalid/a\n" +
				"parameters: {type: FIELD}\n"},
		"priority-class": {path: "/apis/scheduling.k8s.io/v1/priorityclasses/NAMESPACE", before: "1", after: "2",
			manifest: "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NAMESPACE}\nvalue: FIELD\n"},
		"kept": {path: "/api/v1" + namespaced + "configmaps/forced", manifest: forcedConfigMap, before: "1", after: "2",
			meanwhile: `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`, refusal: "forbids the deletion"},
		"of-another-release": {path: "/api/v1" + namespaced + "configmaps/forced", manifest: forcedConfigMap, before: "1",
			after:     "2",
			meanwhile: `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`, refusal: "it belongs to release"},
		"custom-resource": {path: "/apis/NAMESPACE.example.com/v1" + namespaced + "databases/forced", before: "1", after: "2",
			manifest: "apiVersion: NAMESPACE.example.com/v1\nkind: Database\nmetadata: {name: forced}\nspec: {size: \"FIELD\"}\n",
			refusal:  "its deletion could destroy data"},
	}
	set := forceCase{path: "/apis/apps/v1" + namespaced + "statefulsets/forced", manifest: forcedStatefulSet,
		before: "one", after: "two"}
	cases["stateful-set"] = set
	set.manifest, set.refusal = forcedStatefulSet+deletesClaims,
		"its PersistentVolumeClaims and their data would be deleted"
	cases["stateful-set-with-data"] = set
	// The state in the cluster decides.
	set.manifest, set.meanwhile = forcedStatefulSet,
		`{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"}}}`
	cases["stateful-set-with-data-meanwhile"] = set
	return cases
}

// databaseCRD is the CustomResourceDefinition of a kind whose size is immutable.
const databaseCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.NAMESPACE.example.com}
spec:
  group: NAMESPACE.example.com
  scope: Namespaced
  names: {plural: databases, singular: database, kind: Database, listKind: DatabaseList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: Value is immutable}]}
`

// TestIntegrationForceKinds checks which kinds are re-created by an upgrade with force. It must keep all objects whose
// deletion may destroy data.
func TestIntegrationForceKinds(t *testing.T) {
	for name, test := range forceCases() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			made := func(version, field string) *chart.Chart {
				names := strings.NewReplacer("NAMESPACE", b.namespace, "FIELD", field)
				chrt := helmtest.NewChart(version, map[string]string{"forced.yaml": names.Replace(test.manifest)})
				if name == "custom-resource" {
					chrt.Files = append(chrt.Files, &chart.File{Name: "crds/database.yaml", Data: []byte(names.Replace(databaseCRD))})
				}
				return chrt
			}
			run := b.newRun(made("1.0.0", test.before), nil)
			run.mustSettle(t)
			path := strings.ReplaceAll(test.path, "NAMESPACE", b.namespace)
			if test.meanwhile != "" {
				err := b.kube.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(path).
					Body([]byte(test.meanwhile)).Do(t.Context()).Error()
				if err != nil {
					t.Fatal(err)
				}
			}
			before := b.get(path).GetUID()
			run.options.Upgrade.Force = true
			run.desired.OptionsDigest = model.OptionsDigest(run.options)
			run.want("a2", made("2.0.0", test.after))
			_, err := run.actNow(t, model.ActionUpgrade)
			if test.refusal == "" && err != nil {
				t.Errorf("not re-created: %v", err)
			}
			if test.refusal != "" {
				helmtest.WantError(t, err, nil, true, "cannot be changed in place, and force does not delete it:", test.refusal)
			}
			if remains := b.get(path).GetUID() == before; remains != (test.refusal != "") {
				t.Errorf("the same object is there: %t", remains)
			}
		})
	}
}
