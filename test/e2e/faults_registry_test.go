// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// shortInterval makes HelmOp find a fault and its end soon.
const shortInterval = time.Second

// registryFault breaks the registry for a HelmOp with a deployed release, and repairs it.
type registryFault struct {
	reason         string
	breaks, repair func(s *scenario, r *registry.Registry, helmOp *addonsv1.HelmOp)
	// revision is the revision of the release at the end. It is 1 if the repair restores the state before the fault.
	revision int
	// version is the version of the chart at the end.
	version string
}

// TestRegistryFaults breaks the access to a chart in every way that a user can. Each fault has a reason, the release
// stays, and HelmOp recovers by itself when the fault ends.
func TestRegistryFaults(t *testing.T) {
	s := newScenario(t)
	r := s.ownRegistry()
	w := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	parts := map[string]func(*scenario){}
	for name, fault := range registryFaults() {
		repository := "charts/" + name
		s.push(r, repository, "1.0.0")
		parts[name] = func(s *scenario) { w.in(s).runFault(r, name, repository, fault) }
	}
	s.each(parts)
}

func registryFaults() map[string]registryFault {
	setRef := func(ref addonsv1.ArtifactReference) func(*scenario, *registry.Registry, *addonsv1.HelmOp) {
		return func(s *scenario, _ *registry.Registry, helmOp *addonsv1.HelmOp) {
			update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref = ref })
		}
	}
	pushVersion := func(repository, version string) func(*scenario, *registry.Registry, *addonsv1.HelmOp) {
		return func(s *scenario, r *registry.Registry, _ *addonsv1.HelmOp) { s.push(r, repository, version) }
	}
	return map[string]registryFault{
		"credentials": {
			reason: addonsv1.RegistryAuthenticationFailedReason, breaks: setPassword("wrong"), repair: setPassword(""),
			revision: 1, version: "1.0.0",
		},
		"ca": {
			reason: addonsv1.RegistryCertificateInvalidReason, breaks: setForeignCA, repair: setOwnCA,
			revision: 1, version: "1.0.0",
		},
		"no-secret": {
			reason: addonsv1.ReferenceNotFoundReason, breaks: deleteCredentials, repair: createCredentials,
			revision: 1, version: "1.0.0",
		},
		"repository": {
			reason: addonsv1.ArtifactNotFoundReason,
			breaks: func(s *scenario, r *registry.Registry, helmOp *addonsv1.HelmOp) {
				update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.URL = "oci://" + r.Host() + "/charts/later" })
			},
			repair: pushVersion("charts/later", "1.0.0"), revision: 1, version: "1.0.0",
		},
		"tag": {
			reason: addonsv1.ArtifactNotFoundReason, breaks: setRef(addonsv1.ArtifactReference{Tag: "1.5.0"}),
			repair: pushVersion("charts/tag", "1.5.0"), revision: 2, version: "1.5.0",
		},
		"range": {
			reason: addonsv1.NoMatchingTagReason, breaks: setRef(addonsv1.ArtifactReference{Semver: "~2.1"}),
			repair: pushVersion("charts/range", "2.1.7"), revision: 2, version: "2.1.7",
		},
		"not-a-chart": {
			reason: addonsv1.UnsupportedArtifactReason,
			breaks: func(s *scenario, r *registry.Registry, helmOp *addonsv1.HelmOp) {
				_, err := r.PushArtifact(s.Context(), "charts/not-a-chart", "3.0.0", "application/vnd.example", []byte("hello"))
				s.must(err)
				setRef(addonsv1.ArtifactReference{Tag: "3.0.0"})(s, r, helmOp)
			},
			repair: pushVersion("charts/not-a-chart", "3.0.0"), revision: 2, version: "3.0.0",
		},
	}
}

// runFault breaks and repairs the registry for a HelmOp that has a healthy release.
func (w *workload) runFault(r *registry.Registry, name, repository string, fault registryFault) {
	s := w.scenario
	helmOp := s.noteFrom(r, name, repository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, name, 1)

	fault.breaks(s, r, helmOp)
	s.eventually(helmOp, condition(addonsv1.ResolvedCondition, metav1.ConditionFalse, fault.reason))
	s.eventuallyEvent(helmOp, fault.reason)
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := w.revisions(ctx, releaseNamespace, name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(summaries(revisions)).To(gomega.Equal([]string{"1 deployed"}))
		expectCondition(g, s.children(ctx, g, helmOp)[w.name], addonsv1.ReadyCondition, metav1.ConditionTrue,
			addonsv1.ReadyReason)
	}).WithContext(s.Context()).Should(gomega.Succeed())

	fault.repair(s, r, helmOp)
	s.eventually(helmOp, ready(1), condition(addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason))
	w.eventuallyReleased(helmOp, releaseNamespace, name, fault.revision)
	w.eventuallyHello(releaseNamespace, name, map[string]string{"chartVersion": fault.version})
}

// setPassword changes the password in the Secret with the credentials. An empty password means the correct one.
func setPassword(password string) func(*scenario, *registry.Registry, *addonsv1.HelmOp) {
	return func(s *scenario, r *registry.Registry, helmOp *addonsv1.HelmOp) {
		config, err := r.DockerConfigJSON()
		s.must(err)
		if password != "" {
			config = []byte(`{"auths":{"` + r.Host() + `":{"username":"` + r.Username() + `","password":"` + password + `"}}}`)
		}
		update(s, s.secret(helmOp.Spec.Source.SecretRef.Name), func(secret *corev1.Secret) {
			secret.Data[corev1.DockerConfigJsonKey] = config
		})
	}
}

func setForeignCA(s *scenario, _ *registry.Registry, helmOp *addonsv1.HelmOp) {
	ca, err := pki.NewCA("other")
	s.must(err)
	setCA(s, helmOp, ca.PEM())
}

func setOwnCA(s *scenario, r *registry.Registry, helmOp *addonsv1.HelmOp) { setCA(s, helmOp, r.CA()) }

func setCA(s *scenario, helmOp *addonsv1.HelmOp, pem []byte) {
	update(s, s.secret(helmOp.Spec.Source.CertSecretRef.Name), func(secret *corev1.Secret) { secret.Data["ca.crt"] = pem })
}

func deleteCredentials(s *scenario, _ *registry.Registry, helmOp *addonsv1.HelmOp) {
	s.remove(s.secret(helmOp.Spec.Source.SecretRef.Name))
}

func createCredentials(s *scenario, r *registry.Registry, helmOp *addonsv1.HelmOp) {
	config, err := r.DockerConfigJSON()
	s.must(err)
	secret := s.secret(helmOp.Spec.Source.SecretRef.Name)
	secret.Type, secret.Data = corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: config}
	s.create(secret)
}

// TestRegistryDown stops the registry. A chart that was pulled before is installed even in a Cluster that is selected
// meanwhile.
func TestRegistryDown(t *testing.T) {
	s := newScenario(t)
	r := s.ownRegistry()
	s.push(r, "charts/note", "1.0.0")
	label := map[string]string{addonsLabel: "note"}
	workloads := s.clusters(testbed.ClusterOptions{Name: "one", Labels: label}, testbed.ClusterOptions{Name: "two"})
	one, two := workloads[0], workloads[1]
	helmOp := s.noteFrom(r, "note", "charts/note", addonsv1.ArtifactReference{Semver: "1.x"})
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: label}
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "note", 1)

	for _, mode := range []registry.Mode{registry.Down, registry.Status, registry.Hang} {
		before := s.occurrences(s.Context(), s, helmOp, addonsv1.RegistryUnreachableReason)
		s.must(r.SetFault(registry.Fault{Mode: mode, Code: 503}))
		s.eventually(helmOp, condition(addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason))
		s.Eventually(func(g gomega.Gomega, ctx context.Context) {
			g.Expect(s.occurrences(ctx, g, helmOp, addonsv1.RegistryUnreachableReason)).To(
				gomega.BeNumerically(">", before), "Events that the registry is unreachable, mode %v", mode)
		}).WithContext(s.Context()).Should(gomega.Succeed())
		if mode == registry.Down {
			s.label("two", addonsLabel, "note")
			two.eventuallyReleased(helmOp, releaseNamespace, "note", 1)
		}
		one.expectUntouched()
		s.must(r.SetFault(registry.Fault{}))
		s.eventually(helmOp, ready(2), condition(addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason))
	}
	s.push(r, "charts/note", "1.1.0")
	one.eventuallyHello(releaseNamespace, "note", map[string]string{"chartVersion": "1.1.0"})
	one.eventuallyRevisions(releaseNamespace, "note", "1 superseded", "2 deployed")
	two.eventuallyRevisions(releaseNamespace, "note", "1 superseded", "2 deployed")
}

// TestChartCannotBePulled uses a registry that resolves a tag and then fails to serve the chart.
func TestChartCannotBePulled(t *testing.T) {
	s := newScenario(t)
	r := s.ownRegistry()
	// This content must not be in the store from another scenario or an earlier run.
	version := "7.7.7-x" + s.namespace[strings.LastIndex(s.namespace, "-")+1:]
	s.push(r, "charts/note", version)
	w := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	for code, reason := range map[int]string{
		http.StatusServiceUnavailable: addonsv1.RegistryUnreachableReason,
		http.StatusForbidden:          addonsv1.RegistryAuthenticationFailedReason,
		http.StatusNotFound:           addonsv1.ArtifactNotFoundReason,
	} {
		s.must(r.SetFault(registry.Fault{Mode: registry.Status, Code: code, Match: func(request registry.Request) bool {
			return request.Kind == registry.BlobGet
		}}))
		name := fmt.Sprintf("note-%d", code)
		helmOp := s.noteFrom(r, name, "charts/note", addonsv1.ArtifactReference{Tag: version})
		s.create(helmOp)
		child := s.child(helmOp, "one", childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, reason),
			func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				g.Expect(child.Status.Failures).To(gomega.BeZero())
			})
		s.eventuallyEvent(child, reason)
		s.eventually(helmOp, failure("one", reason, r.Host()))
		w.eventuallyRevisions(releaseNamespace, name)
	}
	s.must(r.SetFault(registry.Fault{}))
	r.ResetCounts()
	for _, name := range []string{"note-503", "note-403", "note-404"} {
		w.eventuallyRevisions(releaseNamespace, name, "1 deployed")
	}
	s.Expect(r.Counts().BlobGets).To(gomega.BeNumerically("<=", 2), "one pull of the chart, and of its configuration")
}

// TestRolloutWaitsForPull truncates each download of a new version during its rollout. The rollout must not end, change
// a Cluster, or return to the former version. It goes on by itself when the registry is repaired.
func TestRolloutWaitsForPull(t *testing.T) {
	s := newScenario(t)
	r := s.ownRegistry()
	s.pushUnique(r, chartRepository, "1.0.0")
	workloads := s.clusters(testbed.ClusterOptions{Name: "one"}, testbed.ClusterOptions{Name: "two"})
	helmOp := s.noteFrom(r, "note", chartRepository, addonsv1.ArtifactReference{Semver: "1.x"})
	helmOp.Spec.Rollout = &addonsv1.Rollout{OnFailure: addonsv1.RolloutFailureActionRollback}
	s.create(helmOp)
	s.eventually(helmOp, inPhase(1, addonsv1.RolloutPhaseComplete), ready(2))

	end, err := r.Fail(registry.Fault{Mode: registry.Truncate, Match: registry.In(chartRepository, registry.BlobGet)})
	s.must(err)
	s.pushUnique(r, chartRepository, "1.1.0")
	s.eventually(helmOp, inPhase(2, addonsv1.RolloutPhaseProgressing), func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Failures).To(gomega.ContainElement(gomega.And(
			gomega.HaveField("Reason", addonsv1.ArtifactFetchFailedReason),
			gomega.HaveField("Message", gomega.ContainSubstring("content does not match its digest")))))
	})
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		current := &addonsv1.HelmOp{}
		g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(helmOp), current)).To(gomega.Succeed())
		inPhase(2, addonsv1.RolloutPhaseProgressing)(g, current)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	for _, w := range workloads {
		w.eventuallyRevisions(releaseNamespace, "note", "1 deployed")
	}

	end()
	s.eventually(helmOp, inPhase(2, addonsv1.RolloutPhaseComplete), ready(2))
	for _, w := range workloads {
		w.eventuallyRevisions(releaseNamespace, "note", "1 superseded", "2 deployed")
	}
}
