// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestFleetCommands finds faults and controls HelmOps with kubectl helmop, while the manager runs.
func TestFleetCommands(t *testing.T) {
	s := newScenario(t)
	s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{"canary": "yes"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}},
	)
	s.part("broken values", (*scenario).findsBrokenValues)
	s.part("page", (*scenario).showsPage)
	s.part("logs and an archive", (*scenario).findsLogsAndDebugs)
	s.part("rendering", (*scenario).rendersAsTheManager)
	s.part("preview", (*scenario).previewsAsTheManager)
	s.part("preview of Clusters that differ", (*scenario).previewsDifferences)
	s.part("preview and approval", (*scenario).approvesThePreview)
	s.part("check of an upgrade", (*scenario).checksAnUpgrade)
	s.part("pause", (*scenario).pausesAndResumes)
	s.part("promotion", (*scenario).promotesWaves)
	s.part("retry of a failed release", (*scenario).retriesAfterTheFix)
	s.part("abort and continue", (*scenario).abortsAndContinues)
	s.part("rollback of one Cluster", (*scenario).rollsBackOneCluster)
}

// helmopCommand runs kubectl helmop, and returns its output and its exit code.
func (s *scenario) helmopCommand(args ...string) (output string, code int) {
	s.Helper()
	return s.answeredCommand("", args...)
}

// answeredCommand runs kubectl helmop with an answer on its input, and returns its output and its exit code.
func (s *scenario) answeredCommand(answer string, args ...string) (output string, code int) {
	s.Helper()
	return s.plainCommand(answer, append(args, "--kubeconfig", s.env.Management.KubeconfigFile(), "--namespace",
		s.namespace)...)
}

// plainCommand runs kubectl helmop with an answer on its input and without a management cluster, and returns its output
// and its exit code.
func (s *scenario) plainCommand(answer string, args ...string) (output string, code int) {
	s.Helper()
	var out bytes.Buffer
	code = cli.Run(s.Context(), args, cli.Streams{In: strings.NewReader(answer), Out: &out, ErrOut: &out})
	return out.String(), code
}

// answers runs kubectl helmop twice: nothing happens if its question is answered with no, and the command succeeds if
// it is answered with yes.
func (s *scenario) answers(args ...string) (output string) {
	s.Helper()
	output, code := s.answeredCommand("n\n", args...)
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.ContainSubstring("[y/N]"))
	output, code = s.answeredCommand("y\n", args...)
	s.Expect(code).To(gomega.BeZero(), output)
	return output
}

// mustCommand runs kubectl helmop, which must succeed.
func (s *scenario) mustCommand(args ...string) string {
	s.Helper()
	output, code := s.helmopCommand(args...)
	if code != 0 {
		s.Fatalf("%q: exit code %d\n%s", args, code, output)
	}
	return output
}

// findsBrokenValues breaks the values of a HelmOp: one command names the Cluster and the cause, and one ends the fault.
func (s *scenario) findsBrokenValues() {
	helmOp := s.newHelmOp("broken", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))
	s.Expect(s.mustCommand("status", "broken", "--exit-code")).To(gomega.ContainSubstring("2 alike: one, two"))

	good := helmOp.Spec.Values
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Values = helloValues(map[string]any{"greeting": `{{ if eq .Cluster.metadata.name "two" }}{{ .No }}{{ end }}`})
	})
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason))
	output, code := s.helmopCommand("status", "broken", "--exit-code")
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.MatchRegexp(`(?m)^broken +two +Failed `))
	s.Expect(s.mustCommand("describe", "broken", "--cluster", "two")).To(gomega.SatisfyAll(
		gomega.ContainSubstring("What to do next"), gomega.ContainSubstring("helmop retry broken"),
		gomega.ContainSubstring("--cluster two")))

	s.findsOnPage("broken", "two", `no key "No" in .No`, "kubectl helmop retry broken")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = good })
	s.mustCommand("reconcile", "broken", "--wait", "--timeout", patience.String())
	s.eventually(helmOp, ready(2))
	s.Expect(s.mustCommand("tree", "broken")).To(gomega.ContainSubstring("Cluster two, Ready, version 1.0.0"))
	s.Expect(s.mustCommand("history", "broken")).To(gomega.ContainSubstring("Complete"))
	s.Expect(s.mustCommand("versions")).To(gomega.MatchRegexp(`hello +1\.0\.0`))
	s.eventuallyPrints("ReleasesFailed", "events", "broken", "--types=Warning")
}

// findsLogsAndDebugs reads the log of the manager, and writes an archive. The manager is a process and no Pod here.
func (s *scenario) findsLogsAndDebugs() {
	helmOp := s.newHelmOp("logged", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Values = helloValues(map[string]any{"greeting": "planted-value"})
	})
	s.eventually(helmOp, inPhase(2, addonsv1.RolloutPhaseComplete))
	output, code := s.helmopCommand("logs", "logged")
	s.Expect(code).To(gomega.Equal(3), output)
	s.Expect(output).To(gomega.ContainSubstring("no manager found in namespace \"helmop-system\""))

	log := s.env.Managers()[0].LogFile()
	s.Expect(s.mustCommand("logs", "logged", "--from-file", log)).To(gomega.And(
		gomega.ContainSubstring(`HelmOp="`+s.namespace+`/logged"`), gomega.ContainSubstring("Updating a release"),
		gomega.Not(gomega.ContainSubstring("/broken"))))
	s.Expect(s.mustCommand("logs", "logged", "--cluster", "two", "--from-file", log)).To(gomega.And(
		gomega.ContainSubstring(`Cluster="two"`), gomega.Not(gomega.ContainSubstring(`Cluster="one"`))))

	archive := filepath.Join(s.TempDir(), "helmop.tar.gz")
	s.Expect(s.mustCommand("debug", "logged", "-o", archive)).To(gomega.ContainSubstring("README.md"))
	listed, err := exec.CommandContext(s.Context(), "tar", "-xzOf", archive).Output()
	s.must(err)
	s.Expect(string(listed)).To(gomega.And(gomega.ContainSubstring("the Pods of the manager: no manager found"),
		gomega.ContainSubstring("kind: HelmOpRelease\n"), gomega.ContainSubstring("storage: v1alpha1"),
		gomega.Not(gomega.ContainSubstring("planted-value"))))
}

// eventuallyPrints waits until the output of a command has a text. A manager writes Events in the background.
func (s *scenario) eventuallyPrints(text string, args ...string) {
	s.Helper()
	s.Eventually(func() string { return s.mustCommand(args...) }, patience).Should(gomega.ContainSubstring(text))
}

// rendersAsTheManager compares what the commands print with the objects that the manager then installs.
func (s *scenario) rendersAsTheManager() {
	helmOp := s.newHelmOp("rendered", forAll)
	helmOp.Spec.Values = helloValues(map[string]any{"greeting": "hello {{ .ClusterName }}"})
	helmOp.Spec.Paused = true
	s.create(helmOp)
	s.Expect(s.mustCommand("values", "rendered", "--cluster", "two")).To(gomega.ContainSubstring("greeting: hello two"))
	output, code := s.helmopCommand("render", "rendered", "--cluster", "two")
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.ContainSubstring("the source of the HelmOp is not resolved"))

	s.mustCommand("resume", "rendered", "--wait", "--timeout", patience.String())
	s.eventually(helmOp, ready(2))
	s.mustCommand("pause", "rendered", "--wait", "--timeout", patience.String())
	s.setGreeting(helmOp, "later")
	s.Expect(s.mustCommand("render", "rendered", "--cluster", "two")).To(gomega.And(
		gomega.ContainSubstring(`greeting: "later"`), gomega.ContainSubstring("kind: ConfigMap")))
	// A paused HelmOp cannot be deleted.
	s.mustCommand("resume", "rendered", "--wait", "--timeout", patience.String())
}

// pausesAndResumes waits for what the commands request.
func (s *scenario) pausesAndResumes() {
	helmOp := s.newHelmOp("held", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))
	s.mustCommand("pause", "held", "--wait", "--timeout", patience.String())
	s.eventually(helmOp, condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
	s.setGreeting(helmOp, "later")
	s.mustCommand("resume", "held", "--wait", "--timeout", patience.String())
	s.mustCommand("rollout", "status", "held", "--timeout", patience.String())
	s.eventually(helmOp, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	s.mustCommand("retry", "held", "--wait", "--timeout", patience.String())
}

// promotesWaves promotes a wave that waits for a promotion, and restores the spec of the first revision.
func (s *scenario) promotesWaves() {
	helmOp := s.newHelmOp("waves", forAll, withCanary)
	s.create(helmOp)
	s.eventually(helmOp, ready(2), inPhase(1, addonsv1.RolloutPhaseComplete))
	first := string(helmOp.Spec.Values.Raw)
	s.setGreeting(helmOp, "two")
	s.promotesCanary(helmOp, 2)
	s.eventuallyPrints("HelmOp revision 2 is rolled out", "events", "waves")

	s.mustCommand("rollout", "undo", "waves", "--wait", "--timeout", patience.String())
	s.promotesCanary(helmOp, 3)
	s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Spec.Values.Raw).To(gomega.MatchJSON(first))
		g.Expect(h.Spec.Source.Ref.Digest).NotTo(gomega.BeEmpty())
	})
}

// withCanary has a first wave with one Cluster, and waits for its promotion.
func withCanary(h *addonsv1.HelmOp) {
	h.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{
		Name: "canary", Promotion: addonsv1.WavePromotionManual,
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}},
	}}}
}

// retriesAfterTheFix removes the cause of a failure in one Cluster, and retries the release there.
func (s *scenario) retriesAfterTheFix() {
	const namespace = "retried"
	two := s.workload("two")
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "retried"}}
	s.must(two.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	s.must(two.Create(s.Context(), foreign))
	helmOp := s.newHelmOp("retried", forAll)
	helmOp.Spec.Release.Namespace = namespace
	s.create(helmOp)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason))
	s.Expect(s.mustCommand("describe", "retried", "--cluster", "two")).To(gomega.And(
		gomega.ContainSubstring(`ConfigMap "retried"`), gomega.ContainSubstring("helmop retry retried")))
	s.must(two.Delete(s.Context(), foreign))
	s.mustCommand("retry", "retried", "--cluster", "two", "--wait", "--timeout", patience.String())
	s.eventually(helmOp, ready(2))
	s.Expect(s.mustCommand("history", "retried", "--cluster", "two", "-o", "yaml")).To(
		gomega.ContainSubstring("succeeded: true"))
}

// abortsAndContinues pauses, resumes and aborts a rollout, and continues another one after a failure.
func (s *scenario) abortsAndContinues() {
	helmOp := s.newHelmOp("steered", forAll, withCanary)
	s.create(helmOp)
	s.eventually(helmOp, ready(2), inPhase(1, addonsv1.RolloutPhaseComplete))
	s.setGreeting(helmOp, "two")
	s.eventually(helmOp, inPhase(2, addonsv1.RolloutPhaseProgressing), waitsFor("2/canary"))
	steer := func(verb string) {
		s.Helper()
		s.mustCommand("rollout", verb, "steered", "--wait", "--timeout", patience.String())
	}
	steer("pause")
	s.eventually(helmOp, waitsFor("spec.rollout.paused"))
	steer("resume")
	s.eventually(helmOp, waitsFor("2/canary"))
	steer("abort")
	s.eventually(helmOp, inPhase(2, addonsv1.RolloutPhaseAborted))
	s.Expect(s.mustCommand("rollout", "history", "steered")).To(gomega.MatchRegexp(`(?m)^2 .*Aborted`))

	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"podCIDR": "none"}) })
	s.eventually(helmOp, inPhase(3, addonsv1.RolloutPhasePaused))
	s.Expect(s.mustCommand("status", "steered")).To(gomega.ContainSubstring("helmop rollout continue steered"))
	s.Expect(s.mustCommand("rollout", "continue", "steered", "--wait", "--timeout", patience.String())).To(
		gomega.ContainSubstring("rollout of HelmOp revision 3 continued; 1 failure no longer counts"))
	s.eventually(helmOp, inPhase(3, addonsv1.RolloutPhaseProgressing))
}

// promotesCanary promotes the wave canary of a revision, and waits until the rollout is complete.
func (s *scenario) promotesCanary(helmOp *addonsv1.HelmOp, revision int64) {
	s.Helper()
	s.eventually(helmOp, inPhase(revision, addonsv1.RolloutPhaseProgressing), func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout.WaitingFor).To(gomega.ContainSubstring(fmt.Sprintf("%d/canary", revision)))
	})
	s.Expect(s.mustCommand("status", "waves")).To(gomega.ContainSubstring("helmop rollout promote waves"))
	s.mustCommand("rollout", "promote", "waves", "--wave", "canary", "--wait", "--timeout", patience.String())
	s.mustCommand("rollout", "status", "waves", "--timeout", patience.String())
	s.eventually(helmOp, ready(2), inPhase(revision, addonsv1.RolloutPhaseComplete))
}

// rollsBackOneCluster returns one Cluster to an earlier HelmOp revision. The Cluster keeps this revision when the
// HelmOp changes. After the end of the pin, it gets the newest revision again.
func (s *scenario) rollsBackOneCluster() {
	helmOp := s.newHelmOp("pinned", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2), inPhase(1, addonsv1.RolloutPhaseComplete))
	s.setGreeting(helmOp, "two")
	s.eventually(helmOp, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	s.mustCommand("rollback", "pinned", "--cluster", "two", "--wait", "--timeout", patience.String())
	s.setGreeting(helmOp, "three")
	s.eventually(helmOp, inPhase(3, addonsv1.RolloutPhaseComplete),
		condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	s.Expect(s.mustCommand("status", "pinned")).To(gomega.And(
		gomega.MatchRegexp(`(?m)^pinned +two +Pinned +1\.0\.0 +3 `), gomega.MatchRegexp(`(?m)^pinned +one +Ready +1\.0\.0 +3 `)))
	s.Expect(s.mustCommand("describe", "pinned", "--cluster", "two")).To(
		gomega.ContainSubstring("helmop unpin pinned"))
	values := filepath.Join(s.TempDir(), "values.yaml")
	s.Expect(os.WriteFile(values, []byte("greeting: four\n"), 0o600)).To(gomega.Succeed())
	output, code := s.helmopCommand("preview", "pinned", "--values", values)
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.And(gomega.ContainSubstring("1 differ, 1 pinned"),
		gomega.ContainSubstring("two: pinned to HelmOp revision 1")))
	output, code = s.helmopCommand("rollback", "pinned", "--cluster", "two", "--to", "77")
	s.Expect(code).NotTo(gomega.BeZero())
	s.Expect(output).To(gomega.ContainSubstring("there is no HelmOp revision 77"))

	unpin := []string{"unpin", "pinned", "--cluster", "two", "--wait", "--timeout", patience.String()}
	s.mustCommand(unpin...)
	s.mustCommand("rollback", "pinned", "--cluster", "two", "--to", "2", "--wait", "--timeout", patience.String())
	s.Expect(s.mustCommand("status", "pinned", "--cluster", "two")).To(gomega.ContainSubstring("Pinned"))
	s.Expect(s.mustCommand("values", "pinned", "--cluster", "one")).To(gomega.ContainSubstring("greeting: three"))
	s.mustCommand(unpin...)
	s.eventually(helmOp, ready(2), func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Clusters.UpToDate).To(gomega.BeEquivalentTo(2))
	})
}
