// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestManagerLogs reads the logs of managers in Pods with kubectl helmop. The Pods belong to the installed Deployment,
// and run as processes. A kubelet's server serves their logs.
func TestManagerLogs(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{Controllers: podControllers, NoManager: true})
	program, err := suite.binary()
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: environment.Namespace, Name: environment.Deployment}
	if err := env.Client.Get(t.Context(), key, deployment); err != nil {
		t.Fatal(err)
	}
	image := deployment.Spec.Template.Spec.Containers[0].Image
	// The managers end after the scenario, which leaves no object.
	startKubelet(t, env, environment.KubeletOptions{Images: map[string]string{image: program}, Logs: true})
	s := newScenarioIn(t, env)
	s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})
	l := &managerLogs{secret: "s3cret/" + rand.Text(), logged: s.newHelmOp("logged", forAll, fromSecret),
		other: s.newHelmOp("logged-too", forAll)}
	s.createSecret("values", "token: "+l.secret)
	s.step("selects entries", l.selects)
	s.step("follows across a restart", l.follows)
	s.step("reads the log before the restart", l.readsPrevious)
	s.step("writes an archive without secrets", l.debugs)
	s.step("reads several Pods", l.readsAll)
}

// managerLogs are two HelmOps, and a Secret with values of the first.
type managerLogs struct {
	secret        string
	logged, other *addonsv1.HelmOp
}

// entriesOf returns the lines of an output with entries of a log.
func entriesOf(output string) []string {
	return slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool { return !strings.Contains(line, `="`) })
}

// selects prints the entries about a HelmOp, a Cluster, a time and a level.
func (l *managerLogs) selects(s *scenario) {
	s.create(l.logged)
	s.create(l.other)
	s.eventually(l.logged, ready(2))
	s.eventually(l.other, ready(2))
	about := func(name string) string { return fmt.Sprintf(`HelmOp=%q`, s.namespace+"/"+name) }
	s.eventuallyPrints(`action="Install"`, "logs", "logged")
	s.Expect(s.mustCommand("logs", "logged")).To(gomega.And(gomega.ContainSubstring(about("logged")),
		gomega.Not(gomega.ContainSubstring(about("logged-too")))))
	s.Expect(s.mustCommand("logs", "logged-too")).To(gomega.Not(gomega.ContainSubstring(about("logged"))))
	s.Expect(s.mustCommand("logs", "logged", "--cluster", "two")).To(gomega.And(
		gomega.ContainSubstring(`Cluster="two"`), gomega.Not(gomega.ContainSubstring(`Cluster="one"`))))

	// The manager logs only its actions for a HelmOp.
	s.eventuallyPrints("No entries found", "logs", "logged", "--since=1s")
	all := entriesOf(s.mustCommand("logs", "logged"))
	s.Expect(entriesOf(s.mustCommand("logs", "logged", "--since=1h"))).To(gomega.Equal(all))
	s.Expect(entriesOf(s.mustCommand("logs", "logged", "--tail=1"))).To(gomega.Equal(all[len(all)-1:]))

	s.Expect(s.mustCommand("logs", "logged", "--level=error")).To(gomega.ContainSubstring("No entries found"))
	s.must(eachLine(s.managerInPod().LogFile(), func(line string) {
		s.Expect(line).NotTo(gomega.HavePrefix("E"), "an error in the log of a manager without a fault")
	}))
	good := l.logged.Spec.Values
	update(s, l.logged, func(h *addonsv1.HelmOp) {
		h.Spec.Values = helloValues(map[string]any{"podCIDR": `{{ if eq .Cluster.metadata.name "two" }}no{{ end }}`})
	})
	s.eventuallyPrints("ValuesInvalid", "logs", "logged", "--level=error", "--cluster", "two")
	update(s, l.logged, func(h *addonsv1.HelmOp) { h.Spec.Values = good })
	s.eventually(l.logged, ready(2))
}

// output is what a command that runs has printed.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write appends data.
func (o *output) Write(data []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

// follows prints new entries, including the entries of a manager that starts after the first one has ended.
func (l *managerLogs) follows(s *scenario) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	printed, ended := &output{}, make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"logs", "logged", "--follow", "--tail=1", "--cluster", "two",
			"--kubeconfig", s.env.Management.KubeconfigFile(), "--namespace", s.namespace},
			cli.Streams{In: strings.NewReader(""), Out: printed, ErrOut: io.Discard})
	}()
	upgrades := func() int { return strings.Count(printed.String(), `action="Upgrade"`) }
	s.Eventually(printed.String).Should(gomega.ContainSubstring(`="`))
	before := upgrades()
	s.setGreeting(l.logged, "before the restart")
	s.Eventually(upgrades).Should(gomega.Equal(before + 1))
	s.eventually(l.logged, ready(2))
	// A manager that is killed would keep its lease for a minute.
	s.must(s.managerInPod().Stop(s.Context()))
	s.setGreeting(l.logged, "after the restart")
	s.Eventually(upgrades).Should(gomega.Equal(before + 2))
	s.eventually(l.logged, ready(2))
	cancel()
	s.Expect(<-ended).To(gomega.BeZero())
	entries := entriesOf(printed.String())
	s.Expect(slices.Compact(slices.Sorted(slices.Values(entries)))).To(gomega.HaveLen(len(entries)), "entries come once")
	s.Expect(printed.String()).NotTo(gomega.ContainSubstring(`Cluster="one"`))
}

// managerInPod returns the manager that was started last.
func (s *scenario) managerInPod() *environment.Manager {
	s.Helper()
	managers := s.env.Managers()
	s.Expect(managers).NotTo(gomega.BeEmpty())
	return managers[len(managers)-1]
}

// readsPrevious reads the log of the manager that has ended.
func (l *managerLogs) readsPrevious(s *scenario) {
	previous := s.mustCommand("logs", "logged", "--previous")
	s.Expect(previous).To(gomega.ContainSubstring(`action="Install"`))
	current := s.mustCommand("logs", "logged")
	s.Expect(current).To(gomega.And(gomega.ContainSubstring(`action="Upgrade"`),
		gomega.Not(gomega.ContainSubstring(`action="Install"`))))
	for _, entry := range entriesOf(previous) {
		s.Expect(current).NotTo(gomega.ContainSubstring(entry))
	}
	_, code := s.helmopCommand("logs", "logged", "--previous", "--follow")
	s.Expect(code).To(gomega.Equal(2))
}

// debugs writes an archive after the manager has logged a secret.
func (l *managerLogs) debugs(s *scenario) {
	encoded := base64.StdEncoding.EncodeToString([]byte("token: " + l.secret))
	log, err := os.OpenFile(s.managerInPod().LogFile(), os.O_APPEND|os.O_WRONLY, 0)
	s.must(err)
	_, err = fmt.Fprintf(log, "E1126 01:02:03.000000       1 chart.go:1] \"The chart failed\" HelmOp=\"%s/logged\" err=<\n"+
		"\tthe token is %s\n\tencoded %s\n >\n", s.namespace, l.secret, encoded)
	s.must(err)
	s.must(log.Close())
	// The command logs prints the manager's log entries for the user.
	s.eventuallyPrints("the token is "+l.secret, "logs", "logged", "--level=error")

	archive := filepath.Join(s.TempDir(), "helmop.tar.gz")
	s.Expect(s.mustCommand("debug", "logged", "-o", archive)).To(gomega.ContainSubstring("README.md"))
	names, err := exec.CommandContext(s.Context(), "tar", "-tzf", archive).Output()
	s.must(err)
	pod := s.managerPods()[0].Name
	s.Expect(string(names)).To(gomega.And(gomega.ContainSubstring("helmop/logs/"+pod+".log\n"),
		gomega.ContainSubstring("helmop/logs/"+pod+".previous.log\n"), gomega.ContainSubstring("helmop/objects/pods.yaml\n")))
	content := func(names ...string) string {
		s.Helper()
		data, err := exec.CommandContext(s.Context(), "tar", append([]string{"-xzOf", archive}, names...)...).Output()
		s.must(err)
		return string(data)
	}
	s.Expect(content()).To(gomega.And(gomega.Not(gomega.ContainSubstring(l.secret)),
		gomega.Not(gomega.ContainSubstring(strings.TrimPrefix(l.secret, "s3cret/"))),
		gomega.Not(gomega.ContainSubstring(encoded))))
	s.Expect(content("helmop/logs/" + pod + ".log")).To(gomega.And(gomega.ContainSubstring(`action="Upgrade"`),
		gomega.ContainSubstring("the token is [redacted]")))
	s.Expect(content("helmop/logs/" + pod + ".previous.log")).To(gomega.ContainSubstring(`action="Install"`))
	s.Expect(content("helmop/README.md")).To(gomega.ContainSubstring("Everything was read."))
	s.Expect(content("helmop/versions.yaml")).To(gomega.MatchRegexp("pod: " + pod + "\n +restarts: 1\n"))
}

// managerPods returns the Pods of the managers.
func (s *scenario) managerPods() []corev1.Pod {
	s.Helper()
	pods := &corev1.PodList{}
	s.must(s.client.List(s.Context(), pods, client.InNamespace(environment.Namespace)))
	s.Expect(pods.Items).NotTo(gomega.BeEmpty())
	return pods.Items
}

// readsAll reads the logs of two managers with a high verbosity. client-go then logs the content of Secrets.
func (l *managerLogs) readsAll(s *scenario) {
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = environment.Namespace, environment.Deployment
	update(s, deployment, func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(int32(2))
		manager := &d.Spec.Template.Spec.Containers[0]
		manager.Args = append(manager.Args, "--v=8")
	})
	s.setGreeting(l.logged, "with all details")
	s.eventually(l.logged, ready(2))
	// The old Pod ends when both new ones are ready. Only the leader logs about HelmOps.
	s.Eventually(func(g gomega.Gomega) {
		pods := s.managerPods()
		g.Expect(pods).To(gomega.HaveLen(2))
		output := s.mustCommand("logs", "logged")
		g.Expect(output).To(gomega.MatchRegexp(`(?m)^\[pod/(%s|%s)\] `, pods[0].Name, pods[1].Name))
		g.Expect(output).NotTo(gomega.ContainSubstring("warning: "))
	}).Should(gomega.Succeed())
	archive := filepath.Join(s.TempDir(), "helmop.tar.gz")
	s.mustCommand("debug", "logged", "-o", archive)
	listed, err := exec.CommandContext(s.Context(), "tar", "-xzOf", archive).Output()
	s.must(err)
	s.Expect(string(listed)).To(gomega.And(gomega.ContainSubstring("[redacted]: the content of a request or response"),
		gomega.Not(gomega.ContainSubstring(`"Response Body"`)), gomega.Not(gomega.ContainSubstring(l.secret))))
}
