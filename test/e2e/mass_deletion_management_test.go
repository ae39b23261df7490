// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// stateCluster is a Cluster of Cluster API in a desired state.
const stateCluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: precious, namespace: %s}
spec: {clusterNetwork: {pods: {cidrBlocks: [10.9.0.0/16]}}}
`

// keepsClusters removes a Cluster from an artifact for the management cluster. The Cluster stays until its deletion is
// confirmed. Another release name or a selector of Clusters does not delete the Cluster either.
func (s *scenario) keepsClusters(w *workload) {
	repository := s.namespace + "/precious"
	full := manifestFiles("precious", "first")
	full["cluster.yaml"] = fmt.Sprintf(stateCluster, s.namespace)
	s.pushArtifact(repository, "production", orasFiles(s, full))
	helmOp := s.newHelmOp("precious", inManagementCluster,
		s.from(repository, addonsv1.ArtifactReference{Tag: "production"}))
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)
	uid := s.cluster("precious").UID
	spec := helmOp.Spec.DeepCopy()
	for _, change := range []func(*addonsv1.HelmOp){
		func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "renamed" },
		func(h *addonsv1.HelmOp) {
			h.Spec.ManagementCluster, h.Spec.Install = nil, nil
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "no-cluster"}}
		},
	} {
		update(s, helmOp, change)
		s.refusesToDelete(helmOp, w, uid, "the uninstallation of release")
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ConfirmationRequiredReason),
			condition(addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.ConfirmationRequiredReason))
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec = *spec.DeepCopy() })
		s.child(helmOp, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
		w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")
	}

	s.pushArtifact(repository, "production", orasFiles(s, manifestFiles("precious", "second")))
	message := s.refusesToDelete(helmOp, w, uid, "the upgrade of release")

	_, confirmation, found := strings.Cut(message, addonsv1.ConfirmDeletionsAnnotation+"=")
	s.Expect(found).To(gomega.BeTrue(), message)
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, addonsv1.ConfirmDeletionsAnnotation, strings.Fields(confirmation)[0])
	})
	w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 2)
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "precious"}, &clusterv1.Cluster{})
		g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
}

// refusesToDelete waits until a release waits for the confirmation of an action, and checks that the Cluster stays. It
// returns the message of the release.
func (s *scenario) refusesToDelete(helmOp *addonsv1.HelmOp, w *workload, uid types.UID, action string) string {
	s.Helper()
	child := s.child(helmOp, w.name,
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ConfirmationRequiredReason))
	message := conditions.GetMessage(child, addonsv1.ReadyCondition)
	s.Expect(message).To(gomega.ContainSubstring("Cluster " + s.namespace + "/precious"))
	s.Expect(message).To(gomega.ContainSubstring(action))
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		cluster := &clusterv1.Cluster{}
		g.Expect(s.client.Get(ctx, s.key("precious"), cluster)).To(gomega.Succeed())
		g.Expect(cluster.UID).To(gomega.Equal(uid))
		g.Expect(cluster.DeletionTimestamp.IsZero()).To(gomega.BeTrue())
	}).WithContext(s.Context()).Should(gomega.Succeed())
	w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")
	return message
}
