// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// plugins are the names with which kubectl and clusterctl find the plugin.
const (
	kubectlPlugin    = "kubectl-helmop"
	clusterctlPlugin = "clusterctl-helmop"
)

// servePlugin runs the plugin if this process was started with its name. Otherwise it returns.
func servePlugin() {
	switch filepath.Base(os.Args[0]) {
	case kubectlPlugin, clusterctlPlugin:
		os.Exit(cli.RunAs(context.Background(), os.Args[0], os.Args[1:],
			cli.Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	}
}

// TestPlugin publishes an artifact with the plugin, from the login to the logout, and installs the mirrored artifact.
// The real kubectl runs the plugin, and so does clusterctl.
func TestPlugin(t *testing.T) {
	s := newScenario(t)
	s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})
	p := s.newPlugin()
	s.step("publish an artifact", p.publishes)
	s.step("mirror and install it", p.mirrors)
	s.step("follow an upgrade", p.follows)
	s.step("completion", p.completes)
	s.step("clusterctl", p.runsByClusterctl)
	s.step("logout", p.logsOut)
}

// plugin is a home folder with the plugin in its PATH.
type plugin struct {
	env      []string
	folder   string
	user     string
	password string
	host     string
}

func (s *scenario) newPlugin() *plugin {
	s.Helper()
	p := &plugin{folder: s.TempDir(), user: "publisher-" + s.namespace, host: s.env.Registry.Host()}
	self, err := os.Executable()
	s.must(err)
	for _, name := range []string{kubectlPlugin, clusterctlPlugin} {
		s.must(os.Symlink(self, p.path(name)))
	}
	p.password, err = s.env.Registry.AddUser(p.user)
	s.must(err)
	s.Cleanup(func() { s.Expect(s.env.Registry.RemoveUser(p.user)).To(gomega.Succeed()) })
	s.must(os.WriteFile(p.path("ca.crt"), s.env.Registry.CA(), 0o600))
	p.env = append(os.Environ(), "HOME="+p.folder, "PATH="+p.folder+string(os.PathListSeparator)+os.Getenv("PATH"),
		"DOCKER_CONFIG="+p.path("docker"), "XDG_CONFIG_HOME="+p.folder, "CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		"KUBECONFIG="+s.env.Management.KubeconfigFile())
	return p
}

func (p *plugin) path(name string) string { return filepath.Join(p.folder, name) }

func (p *plugin) at(reference string) string { return "oci://" + p.host + "/" + reference }

// run runs a program that runs the plugin, and returns its output and its exit code.
func (p *plugin) run(s *scenario, input, program string, args ...string) (output string, code int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.env.Binaries.Path(program), append([]string{"helmop"}, args...)...)
	var out bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, p.folder, strings.NewReader(input), &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.must(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// start starts a command of the plugin by kubectl, and returns its output. It is stopped when the scenario ends.
func (p *plugin) start(s *scenario, args ...string) *gbytes.Buffer {
	s.Helper()
	cmd := exec.Command(s.env.Binaries.Path(binaries.Kubectl), append([]string{"helmop"}, args...)...)
	out := gbytes.NewBuffer()
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, p.folder, out, out
	s.must(cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // An error would mean that it has ended.
		_ = cmd.Wait()
	})
	return out
}

// expect runs a command of the plugin by kubectl, and expects an exit code and texts in the output.
func (p *plugin) expect(s *scenario, code int, args []string, texts ...string) {
	s.Helper()
	output, got := p.run(s, "", binaries.Kubectl, args...)
	s.Expect(got).To(gomega.Equal(code), "%q: %s", args, output)
	for _, text := range texts {
		s.Expect(output).To(gomega.ContainSubstring(text), "%q", args)
	}
}

// artifact writes a folder with a ConfigMap, and returns its path.
func (p *plugin) artifact(s *scenario, color string) string {
	s.Helper()
	folder := p.path(color)
	s.must(os.Mkdir(folder, 0o700))
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: published}\ndata: {color: " + color + "}\n"
	s.must(os.WriteFile(filepath.Join(folder, "object.yaml"), []byte(text), 0o600))
	return folder
}

// onRegistry returns the arguments of a command that uses the registry.
func (p *plugin) onRegistry(args ...string) []string {
	return append(args, "--ca-file", p.path("ca.crt"))
}

// publishes logs in, and pushes, tags, lists and compares two versions of an artifact.
func (p *plugin) publishes(s *scenario) {
	blue, red, repository := p.artifact(s, "blue"), p.artifact(s, "red"), p.at(s.namespace+"/published")
	p.expect(s, 4, p.onRegistry("push", blue, repository+":v1"))

	login := p.onRegistry("login", p.host, "--username", p.user, "--password-stdin")
	output, code := p.run(s, "wrong", binaries.Kubectl, login...)
	s.Expect(code).To(gomega.Equal(4), output)
	output, code = p.run(s, p.password, binaries.Kubectl, login...)
	s.Expect(code).To(gomega.BeZero(), output)
	s.Expect(output).To(gomega.Equal("logged in to " + p.host + "\n"))

	p.expect(s, 0, p.onRegistry("push", blue, repository+":v1"), "sha256:")
	p.expect(s, 0, p.onRegistry("push", red, repository+":v2"), "sha256:")
	p.expect(s, 0, p.onRegistry("tag", repository+":v2", "latest"), "published@sha256:")
	p.expect(s, 0, p.onRegistry("list", repository), "v1", "v2", "latest")
	p.expect(s, 1, p.onRegistry("diff", repository+":v1", repository+":v2"), "-  color: blue", "+  color: red")
	p.expect(s, 0, p.onRegistry("diff", repository+":v2", repository+":latest"))
	p.expect(s, 0, p.onRegistry("pull", repository+":latest", "--dir", p.path("pulled")))
	pulled, err := os.ReadFile(p.path("pulled/object.yaml"))
	s.must(err)
	s.Expect(string(pulled)).To(gomega.ContainSubstring("color: red"))
}

// mirrors copies the artifact twice, and installs the copy.
func (p *plugin) mirrors(s *scenario) {
	source, lock := p.at(s.namespace+"/published:v1"), p.path("mirror.lock.yaml")
	mirror := p.onRegistry("mirror", source, "--to", p.at(s.namespace+"/mirrored"), "--lock", lock)
	p.expect(s, 0, mirror, "/mirrored/", "sha256:")
	first, err := os.ReadFile(lock)
	s.must(err)
	p.expect(s, 0, mirror)
	s.Expect(os.ReadFile(lock)).To(gomega.Equal(first))

	host := strings.ReplaceAll(p.host, ":", "-")
	repository := strings.Join([]string{s.namespace, "mirrored", host, s.namespace, "published"}, "/")
	helmOp := s.newHelmOp("mirrored", forAll, s.from(repository, addonsv1.ArtifactReference{Tag: "v1"}),
		func(h *addonsv1.HelmOp) { h.Spec.Values = nil })
	s.create(helmOp)
	s.eventually(helmOp, ready(1))
	p.expect(s, 0, []string{"status", "mirrored", "-n", s.namespace, "--exit-code"}, "one")
}

// follows watches the HelmOp in several ways while it is upgraded.
func (p *plugin) follows(s *scenario) {
	in := []string{"mirrored", "-n", s.namespace}
	releases := p.start(s, append([]string{"get", "releases", "-w", "-o",
		"custom-columns=CLUSTER:.spec.clusterRef.name,REVISION:.status.release.revision"}, in...)...)
	status := p.start(s, append([]string{"status", "-w"}, in...)...)
	events := p.start(s, append([]string{"events", "-w"}, in...)...)
	s.Eventually(releases, patience).Should(gbytes.Say(`one +1\n`))
	s.Eventually(status, patience).Should(gbytes.Say(`one +Ready +`))
	s.Eventually(events, patience).Should(gbytes.Say(addonsv1.InstalledEvent))

	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "mirrored"}}
	p.expect(s, 0, p.onRegistry("mirror", p.at(s.namespace+"/published:v2"), "--to", p.at(s.namespace+"/mirrored"),
		"--lock", p.path("v2.lock.yaml")), "sha256:")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: "v2"} })
	s.Eventually(releases, patience).Should(gbytes.Say(`one +2\n`))
	s.Eventually(status, patience).Should(gbytes.Say(`one +Ready +`))
	s.Eventually(events, patience).Should(gbytes.Say(addonsv1.UpgradedEvent))

	p.expect(s, 0, append([]string{"get", "revisions", "-o", "name"}, in...), "helmoprevision", "/mirrored-2")
	p.expect(s, 0, append([]string{"get", "helmops", "-o", "jsonpath={.status.rollout.phase}"}, in...), "Complete")
	p.expect(s, 0, append([]string{"history", "-o", "json"}, in...), `"kind": "HelmOpRevision"`, `"number": 2`)
	p.expect(s, 0, append([]string{"events", "-o", "yaml"}, in...), "kind: Event", addonsv1.UpgradedEvent)
	p.expect(s, 0, append([]string{"tree", "-o", "yaml"}, in...), "helmRevision: 2", "state: Ready")
}

// completes prints the script for kubectl, and completes the name of a HelmOp.
func (p *plugin) completes(s *scenario) {
	p.expect(s, 0, []string{"completion", "kubectl"}, "exec kubectl-helmop __complete")
	p.expect(s, 0, []string{"__complete", "-n", s.namespace, "status", "mir"}, "mirrored\n")
}

// runsByClusterctl runs the plugin of clusterctl, whose texts name clusterctl.
func (p *plugin) runsByClusterctl(s *scenario) {
	output, code := p.run(s, "", binaries.Clusterctl, "status", "mirrored", "-n", s.namespace)
	s.Expect(code).To(gomega.BeZero(), output)
	s.Expect(output).To(gomega.ContainSubstring("mirrored"))
	output, _ = p.run(s, "", binaries.Clusterctl, "status", "--help")
	s.Expect(output).To(gomega.ContainSubstring("clusterctl helmop status"))
}

// logsOut removes the credential, so that nothing can be pushed any more.
func (p *plugin) logsOut(s *scenario) {
	p.expect(s, 0, []string{"logout", p.host}, "logged out of "+p.host)
	p.expect(s, 4, p.onRegistry("tag", p.at(s.namespace+"/published:v2"), "again"))
}
