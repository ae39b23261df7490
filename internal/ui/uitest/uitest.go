// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uitest has a fleet of any size for the tests, the benchmark and the pictures of the page.
package uitest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
)

// Namespace is that of all objects.
const Namespace = "fleet"

// Now is the time of the fleet.
func Now() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(Now().Add(-d)) }

// Source is a source of a page with objects in memory.
type Source struct {
	changes *ui.Changes

	// mutex guards the objects.
	mutex    sync.Mutex
	helmOps  []*addonsv1.HelmOp
	releases []*addonsv1.HelmOpRelease
	clusters []*unstructured.Unstructured
	events   []*corev1.Event
	warning  string
}

// World implements ui.Source.
func (s *Source) World(context.Context) (*fleetview.World, string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return fleetview.NewWorld(s.helmOps, s.releases, s.clusters), s.warning, nil
}

// Warn makes the source report a warning.
func (s *Source) Warn(warning string) {
	s.mutex.Lock()
	s.warning = warning
	s.mutex.Unlock()
	s.changes.Add()
}

// Revisions implements ui.Source.
func (s *Source) Revisions(_ context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error) {
	rollout := helmOp.Status.Rollout
	if rollout == nil {
		return nil, nil
	}
	var revisions []*addonsv1.HelmOpRevision
	for number := max(1, rollout.Revision-2); number <= rollout.Revision; number++ {
		revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace,
			Name: apiutil.RevisionName(helmOp.Name, number)}}
		revision.Spec.Number = number
		revision.Spec.Artifact = &addonsv1.ResolvedArtifact{Version: fmt.Sprintf("3.30.%d", number-5)}
		revision.Status = addonsv1.HelmOpRevisionStatus{Phase: addonsv1.RolloutPhaseComplete, Good: true,
			StartedAt: ago(time.Duration(rollout.Revision-number) * 24 * time.Hour), EndedAt: ago(20 * time.Hour)}
		if number == rollout.Revision {
			revision.Status = addonsv1.HelmOpRevisionStatus{Phase: rollout.Phase, StartedAt: rollout.StartedAt}
		}
		revisions = append(revisions, revision)
	}
	return revisions, nil
}

// Events implements ui.Source.
func (s *Source) Events(_ context.Context, about client.ObjectKey, kind string) ([]*corev1.Event, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var events []*corev1.Event
	for _, event := range s.events {
		if event.InvolvedObject.Name == about.Name && event.InvolvedObject.Kind == kind {
			events = append(events, event)
		}
	}
	return events, nil
}

// Changes implements ui.Source.
func (s *Source) Changes() *ui.Changes { return s.changes }

// Change replaces the release of a HelmOp in a Cluster by a changed copy.
func (s *Source) Change(helmOp, cluster string, change func(*addonsv1.HelmOpRelease)) {
	name := apiutil.ChildName(helmOp, cluster)
	s.mutex.Lock()
	for i, release := range s.releases {
		if release.Name == name {
			s.releases[i] = release.DeepCopy()
			change(s.releases[i])
		}
	}
	s.mutex.Unlock()
	s.changes.Add()
}

// ChangeHelmOp replaces a HelmOp by a changed copy.
func (s *Source) ChangeHelmOp(name string, change func(*addonsv1.HelmOp)) {
	s.mutex.Lock()
	for i, helmOp := range s.helmOps {
		if helmOp.Name == name {
			s.helmOps[i] = helmOp.DeepCopy()
			change(s.helmOps[i])
		}
	}
	s.mutex.Unlock()
	s.changes.Add()
}

// addOns are the HelmOps of a fleet, with the version that most Clusters have.
var addOns = []struct{ name, version string }{
	{"calico", "3.30.1"}, {"cert-manager", "1.19.2"}, {"cloud-controller", "2.33.0"}, {"ingress", "4.14.0"},
	{"metrics-server", "3.13.0"},
}

// New returns a fleet with a number of Clusters, at least 8, and 5 HelmOps. Most releases are Ready. One HelmOp is
// rolled out in waves, and some Clusters have problems.
func New(clusters int) *Source {
	s := &Source{changes: ui.NewChanges()}
	for _, addOn := range addOns {
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: addOn.name,
			UID: types.UID(addOn.name), Generation: 1}}
		helmOp.Spec.Source = addonsv1.ArtifactSource{URL: "oci://registry.example.com/charts/" + addOn.name}
		helmOp.Spec.ClusterSelector = &metav1.LabelSelector{}
		helmOp.Status.Artifact = &addonsv1.ArtifactStatus{}
		helmOp.Status.Artifact.Version = addOn.version
		helmOp.Status.Artifact.Digest = "sha256:" + strings.Repeat("4f", 32)
		helmOp.Status.Conditions = []metav1.Condition{
			condition("Ready", "True", "Ready", "All releases are Ready", 30*time.Hour)}
		helmOp.Status.Clusters = &addonsv1.ClusterCounts{Selected: int32(clusters), UpToDate: int32(clusters),
			Ready: int32(clusters)}
		helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 3, LastGoodRevision: 3,
			Phase: addonsv1.RolloutPhaseComplete, StartedAt: ago(31 * time.Hour), Updated: int32(clusters),
			Done: int32(clusters)}
		s.helmOps = append(s.helmOps, helmOp)
	}
	for number := range clusters {
		name := fmt.Sprintf("prod-%03d", number-1)
		if number < 2 {
			name = fmt.Sprintf("canary-%d", number+1)
		}
		s.addCluster(name, number)
		for _, helmOp := range s.helmOps {
			s.addRelease(helmOp, name)
		}
	}
	s.rollOut(clusters)
	s.breakSome()
	return s
}

func condition(name string, status metav1.ConditionStatus, reason, message string,
	since time.Duration,
) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, ObservedGeneration: 1,
		LastTransitionTime: ago(since)}
}

func (s *Source) addCluster(name string, number int) {
	cluster := apiutil.NewCluster()
	cluster.SetNamespace(Namespace)
	cluster.SetName(name)
	stage, region := "prod", []string{"north", "south"}[number%2]
	if number < 2 {
		stage = "canary"
	}
	cluster.SetLabels(map[string]string{"stage": stage, "region": region})
	cluster.Object["spec"] = map[string]any{"topology": map[string]any{"version": "v1.35.2",
		"classRef": map[string]any{"name": "standard"}}}
	cluster.Object["status"] = map[string]any{"phase": "Provisioned",
		"initialization": map[string]any{"controlPlaneInitialized": true},
		"conditions": []any{map[string]any{"type": "Available", "status": "True", "reason": "Available", "message": "",
			"lastTransitionTime": ago(90 * time.Hour).Format(time.RFC3339)}}}
	s.clusters = append(s.clusters, cluster)
}

func (s *Source) addRelease(helmOp *addonsv1.HelmOp, cluster string) {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Generation: 1,
		Name: apiutil.ChildName(helmOp.Name, cluster), OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(helmOp, addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}}}
	release.Spec = addonsv1.HelmOpReleaseSpec{
		ClusterRef: addonsv1.ClusterReference{Name: cluster},
		Release:    addonsv1.ReleaseIdentity{Name: helmOp.Name, Namespace: helmOp.Name + "-system"},
		Artifact:   addonsv1.ResolvedArtifact{Version: helmOp.Status.Artifact.Version, Digest: helmOp.Status.Artifact.Digest},
		Rollout:    &addonsv1.ReleaseRollout{Revision: 3, At: ago(31 * time.Hour)},
	}
	release.Status.Conditions = []metav1.Condition{
		condition("Ready", "True", "Ready", "The release is in the desired state", 30*time.Hour),
		condition("ClusterReachable", "True", "ClusterReachable", "", 90*time.Hour),
		condition("Healthy", "True", "Healthy", "All objects are healthy", 30*time.Hour)}
	release.Status.Release = &addonsv1.ReleaseObservation{Chart: helmOp.Name, Version: helmOp.Status.Artifact.Version,
		Revision: 3, Status: "deployed", LastDeployed: ago(31 * time.Hour)}
	release.Status.Inventory = &addonsv1.Inventory{Revision: 3, Kinds: []addonsv1.InventoryKind{
		{APIVersion: "v1", Kind: "ConfigMap", Objects: []string{helmOp.Name + "-system/settings"}},
		{APIVersion: "apps/v1", Kind: "Deployment", Objects: []string{helmOp.Name + "-system/" + helmOp.Name}}}}
	release.Status.History = []addonsv1.ReleaseAction{
		{Action: "Upgrade", Reason: "the spec changed", FromRevision: 2, Revision: 3, Succeeded: true,
			ChartVersion: helmOp.Status.Artifact.Version, Time: ago(31 * time.Hour)}}
	s.releases = append(s.releases, release)
}

// rollOut rolls out a new version of calico: one canary is done, and the other one soaks.
func (s *Source) rollOut(clusters int) {
	calico := s.helmOps[0]
	calico.Spec.Rollout = &addonsv1.Rollout{MinReadySeconds: 600, MaxFailures: &intstr.IntOrString{IntVal: 3},
		Waves: []addonsv1.Wave{
			{Name: "canary", Promotion: addonsv1.WavePromotionManual,
				ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}},
			{Name: "north", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"region": "north"}}},
		}}
	calico.Status.Artifact.Version = "3.30.2"
	calico.Status.Rollout = &addonsv1.RolloutStatus{Revision: 7, LastGoodRevision: 6, Wave: "canary", Updated: 2, Done: 1,
		InFlight: 1, Phase: addonsv1.RolloutPhaseProgressing, StartedAt: ago(14 * time.Minute),
		WaitingFor: "1 of 2 Clusters of wave canary to be ready for 10m0s"}
	calico.Status.Clusters.UpToDate = 1
	calico.Status.Conditions = []metav1.Condition{
		condition("Ready", "False", addonsv1.UpdatingReason, "HelmOp revision 7 is rolled out", 14*time.Minute)}
	for _, release := range s.releases {
		if apiutil.HelmOpOf(release) == calico.Name {
			release.Spec.Rollout.Revision = 6
		}
	}
	for cluster, since := range map[string]time.Duration{"canary-1": 13 * time.Minute, "canary-2": 4 * time.Minute} {
		s.Change("calico", cluster, func(r *addonsv1.HelmOpRelease) {
			r.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7, At: ago(since)}
			r.Status.Release.Version, r.Status.Conditions[0].LastTransitionTime = "3.30.2", ago(since)
		})
	}
	s.event(calico.Name, apiutil.HelmOpKind, corev1.EventTypeNormal, "RolloutStarted",
		fmt.Sprintf("HelmOp revision 7 is rolled out to %d Clusters", clusters), 14*time.Minute)
}

// breakSome gives some Clusters problems.
func (s *Source) breakSome() {
	const why = "The values cannot be rendered: valuesTemplate: line 4: Cluster prod-004 has no label \"zone\""
	s.Change("ingress", "prod-004", func(r *addonsv1.HelmOpRelease) {
		r.Status.Conditions[0] = condition("Ready", "False", "UpgradeFailed",
			"The upgrade failed: Deployment ingress-system/ingress is not ready after 5m0s: 1 of 2 Pods cannot pull "+
				"registry.example.com/nginx:1.29.4", 12*time.Minute)
		r.Status.Conditions = append(r.Status.Conditions, condition("Stalled", "True", "RetriesExhausted", "", time.Minute))
		r.Status.Failures, r.Status.LastError = 3, r.Status.Conditions[0].Message
		r.Status.History = append([]addonsv1.ReleaseAction{{Action: "Upgrade", Reason: "the last attempt failed",
			FromRevision: 3, Revision: 4, ChartVersion: "4.14.0", Time: ago(12 * time.Minute)}}, r.Status.History...)
		r.Status.Drift = &addonsv1.DriftStatus{Differing: 1, Objects: []addonsv1.DriftedObject{{APIVersion: "v1",
			Kind: "ConfigMap", Namespace: "ingress-system", Name: "settings", Paths: []string{"/data/proxy-body-size"},
			Manager: "kubectl-edit"}}}
		r.Status.Tests = []addonsv1.TestResult{{Name: "ingress-system/ingress-smoke", Phase: "Failed",
			CompletedAt: ago(13 * time.Minute)}}
		s.event(r.Name, "HelmOpRelease", corev1.EventTypeWarning, "UpgradeFailed", r.Status.Conditions[0].Message,
			12*time.Minute)
	})
	ingress := s.helmOps[3]
	ingress.Status.Clusters.Failed, ingress.Status.Clusters.Stalled = 1, 1
	ingress.Status.Clusters.Ready--
	ingress.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "prod-004", Reason: "UpgradeFailed", Message: why}}
	ingress.Status.Conditions = []metav1.Condition{condition("Ready", "False", "ReleasesFailed",
		"The release in Cluster prod-004 failed", 12*time.Minute)}
	for _, addOn := range addOns {
		s.Change(addOn.name, "prod-002", func(r *addonsv1.HelmOpRelease) {
			r.Status.Conditions[0] = condition("Ready", "False", "ClusterUnreachable",
				"The API server of Cluster prod-002 does not answer", 3*time.Minute)
			r.Status.Conditions[1] = condition("ClusterReachable", "False", "ClusterUnreachable", "", 3*time.Minute)
		})
	}
	s.Change("metrics-server", "prod-003", func(r *addonsv1.HelmOpRelease) {
		r.Status.Conditions = append(r.Status.Conditions, condition("Drifted", "True", "DriftDetected",
			"1 object differs: Deployment metrics-server-system/metrics-server", 40*time.Minute))
	})
	s.helmOps[4].Status.Clusters.Drifted = 1
	for _, helmOp := range s.helmOps {
		helmOp.Status.Clusters.Unreachable = 1
	}
	s.hold("prod-005")
}

// hold makes a HelmOp hold the upgrade of a Cluster.
func (s *Source) hold(cluster string) {
	controller := s.helmOps[2]
	controller.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{
		Timeout: metav1.Duration{Duration: 30 * time.Minute}}
	for _, c := range s.clusters {
		if c.GetName() == cluster {
			c.SetAnnotations(map[string]string{
				clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(controller)): "v1.36.0 since " +
					ago(2*time.Minute).Format(time.RFC3339),
				clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/change-board": "ticket 4711"})
		}
	}
}

func (s *Source) event(name, kind, eventType, reason, message string, since time.Duration) {
	s.events = append(s.events, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: Namespace, Name: name + "." + reason},
		InvolvedObject: corev1.ObjectReference{APIVersion: addonsv1.GroupVersion.String(), Kind: kind, Name: name},
		Type:           eventType, Reason: reason, Message: message, LastTimestamp: ago(since), Count: 1,
	})
}
