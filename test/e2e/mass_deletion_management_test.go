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
// confirmed.
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

	s.pushArtifact(repository, "production", orasFiles(s, manifestFiles("precious", "second")))
	child := s.child(helmOp, w.name,
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ConfirmationRequiredReason))
	message := conditions.GetMessage(child, addonsv1.ReadyCondition)
	s.Expect(message).To(gomega.ContainSubstring("1 Cluster: Cluster " + s.namespace + "/precious"))
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		cluster := &clusterv1.Cluster{}
		g.Expect(s.client.Get(ctx, s.key("precious"), cluster)).To(gomega.Succeed())
		g.Expect(cluster.UID).To(gomega.Equal(uid))
		g.Expect(cluster.DeletionTimestamp.IsZero()).To(gomega.BeTrue())
	}).WithContext(s.Context()).Should(gomega.Succeed())
	w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")

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
