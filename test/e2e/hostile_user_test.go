// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/hostile"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

const (
	// forgedRecords is the number of records of a release that the hostile user creates.
	forgedRecords = 200

	// bombBytes is the size of a record that the hostile user creates, after decompression. The compressed record fits
	// into a Secret.
	bombBytes = 600 << 20
)

// TestHostileUser gives a user of one workload cluster all rights in it. HelmOp must serve this cluster again as soon
// as the user's actions end. The actions must not affect the cluster of another tenant. The manager's memory stays
// bounded.
func TestHostileUser(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{"--memory-limit=" + memoryLimit}})
	s, other := newScenarioIn(t, env), newScenarioIn(t, env)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	two := other.clusters(testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})[0]
	helmOp := s.newHelmOp("hello", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
	})
	// The other release in the same namespace is not damaged.
	beside := s.newHelmOp("beside", forAll)
	s.create(helmOp)
	s.create(beside)
	one.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	one.eventuallyReleased(beside, releaseNamespace, "beside", 1)
	neighbour := newNeighbour(two)
	memory := s.followMemory()

	s.step("marks objects as if clusterctl had moved them", func(s *scenario) {
		one := one.in(s)
		one.annotateHello(clusterctlv1.DeleteForMoveAnnotation)
		s.setGreeting(helmOp, "security fix")
		one.expectGreeting(helmOp, 2, "security fix")
		neighbour.expectServed(s.T)
	})
	s.step("deletes installed objects, and drift detection restores them", func(s *scenario) {
		one := one.in(s)
		one.annotateHello(clusterctlv1.DeleteForMoveAnnotation)
		s.must(one.Delete(s.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: "hello"}}))
		one.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": "security fix"})
		neighbour.expectServed(s.T)
	})
	s.step("creates records that are not Helm's", func(s *scenario) {
		one := one.in(s)
		// The first record has the number of the next revision. All others have later numbers.
		bomb := recordBomb(s)
		for n := range forgedRecords {
			one.forgeRecord(3+n, bomb)
			bomb = []byte("not a record")
		}
		s.nudge(helmOp, "one")
		s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			expectStatus(g, child, addonsv1.ReadyCondition, metav1.ConditionFalse)
		})
		s.setGreeting(beside, "beside damaged records")
		one.eventuallyReleased(beside, releaseNamespace, "beside", 2)
		neighbour.expectServed(s.T)
		s.must(one.DeleteAllOf(s.Context(), &corev1.Secret{}, client.InNamespace(releaseNamespace),
			client.MatchingLabels{forgedLabel: "yes"}))
		s.nudge(helmOp, "one")
		s.eventually(helmOp, ready(1))
	})
	s.step("creates a record whose manifest has gigabytes with expanded aliases", func(s *scenario) {
		one := one.in(s)
		one.forgeRecord(3, aliasRecord(s))
		s.nudge(helmOp, "one")
		s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			expectStatus(g, child, addonsv1.ReadyCondition, metav1.ConditionFalse)
		})
		neighbour.expectServed(s.T)
		s.Expect(memory.manager.Running()).To(gomega.BeTrue(), "the first manager still runs")
		s.must(one.DeleteAllOf(s.Context(), &corev1.Secret{}, client.InNamespace(releaseNamespace),
			client.MatchingLabels{forgedLabel: "yes"}))
		s.nudge(helmOp, "one")
		s.eventually(helmOp, ready(1))
	})
	s.step("changes the owner of the release", func(s *scenario) {
		one := one.in(s)
		one.relabelRecords("addons.cluster.x-k8s.io/helmop", other.namespace+"."+neighbour.helmOps[0].Name)
		s.nudge(helmOp, "one")
		s.child(helmOp, "one", childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
			addonsv1.ReleaseConflictReason))
		neighbour.expectServed(s.T)
		one.relabelRecords("addons.cluster.x-k8s.io/helmop", s.namespace+".hello")
		s.nudge(helmOp, "one")
		s.eventually(helmOp, ready(1))
	})
	s.step("the other cluster is not affected", func(s *scenario) {
		neighbour.expectUntouched(s.T)
	})
	s.step("the manager's memory is bounded", memory.expectBounded)
}

// annotateHello sets an annotation on all objects of a release of the chart hello.
func (w *workload) annotateHello(annotation string) {
	s := w.scenario
	s.Helper()
	configMap := &corev1.ConfigMap{}
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "hello"}, configMap))
	before := configMap.DeepCopy()
	metav1.SetMetaDataAnnotation(&configMap.ObjectMeta, annotation, "")
	s.must(w.Patch(s.Context(), configMap, client.MergeFrom(before)))
}

// forgedLabel marks the records of forgeRecord.
const forgedLabel = "helmop.test/forged"

// forgeRecord creates a Secret with the form of a Helm record.
func (w *workload) forgeRecord(number int, content []byte) {
	s := w.scenario
	s.Helper()
	s.must(w.Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: releaseNamespace, Name: fmt.Sprintf("sh.helm.release.v1.hello.v%d", number),
			Labels: map[string]string{
				"owner": "helm", "name": "hello", "status": "deployed", "version": fmt.Sprint(number), forgedLabel: "yes",
				"addons.cluster.x-k8s.io/helmop": s.namespace + ".hello", "addons.cluster.x-k8s.io/revision": fmt.Sprint(number),
			},
		},
		Type: "helm.sh/release.v1",
		Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(content))},
	}))
}

// recordBomb returns a record as Helm writes it, before base64, with a manifest that consists of spaces.
func recordBomb(s *scenario) []byte {
	s.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	_, err := writer.Write([]byte(`{"name":"hello","namespace":"` + releaseNamespace + `","version":3,"manifest":"`))
	s.must(err)
	for range bombBytes / len(spaces) {
		_, err := writer.Write(spaces)
		s.must(err)
	}
	_, err = writer.Write([]byte(`"}`))
	s.must(err)
	s.must(writer.Close())
	return packed.Bytes()
}

// aliasRecord returns a valid record, before base64, whose manifest has gigabytes with expanded YAML aliases.
func aliasRecord(s *scenario) []byte {
	s.Helper()
	text, err := json.Marshal(map[string]any{
		"name": "hello", "namespace": releaseNamespace, "version": 3, "manifest": hostile.Aliases(),
		"info": map[string]any{"status": "deployed", "first_deployed": time.Now(), "last_deployed": time.Now()},
	})
	s.must(err)
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err = writer.Write(text)
	s.must(errors.Join(err, writer.Close()))
	return packed.Bytes()
}

// relabelRecords sets a label on all records of the release hello.
func (w *workload) relabelRecords(key, value string) {
	s := w.scenario
	s.Helper()
	secrets := &corev1.SecretList{}
	s.must(w.List(s.Context(), secrets, client.InNamespace(releaseNamespace),
		client.MatchingLabels{"owner": "helm", "name": "hello"}))
	for i := range secrets.Items {
		before := secrets.Items[i].DeepCopy()
		secrets.Items[i].Labels[key] = value
		s.must(client.IgnoreNotFound(w.Patch(s.Context(), &secrets.Items[i], client.MergeFrom(before))))
	}
}

// expectStatus checks the status of a condition, with any reason.
func expectStatus(g gomega.Gomega, child *addonsv1.HelmOpRelease, conditionType string, status metav1.ConditionStatus) {
	for _, c := range child.Status.Conditions {
		if c.Type == conditionType {
			g.Expect(c.Status).To(gomega.Equal(status), "condition %s: %s: %s", c.Type, c.Reason, c.Message)
			return
		}
	}
	g.Expect(child.Status.Conditions).To(gomega.ContainElement(gomega.HaveField("Type", conditionType)))
}
