// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capd tests HelmOp with running nodes and Pods: in a management cluster of kind, and in Clusters of Cluster
// API's Docker provider. It follows docs/quick-start.md. Then it runs the scenarios that test/e2e runs with simulated
// Pods: crash loops, missing images, failing Jobs, new and lost nodes, upgrades of Kubernetes, and a deletion that
// waits for a load balancer.
//
// `make test-capd` runs it. It needs Docker, 16 GB of memory and access to the registries of the images and charts.
package capd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/commands"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	// enabledEnv permits the suite, which downloads gigabytes and takes an hour.
	enabledEnv = "HELMOP_CAPD"
	// keepEnv is the environment variable that keeps all clusters for inspection.
	keepEnv = "HELMOP_CAPD_KEEP"

	// prefix is part of the names of everything in Docker, so that a quick start of the user is not touched.
	prefix = "helmop-capd"
	// calico and cilium are the Clusters, each with the CNI in its name.
	calico, cilium = prefix + "-calico", prefix + "-cilium"
	// kubernetes is the version in docs/quick-start.md. older is the version from which a Cluster is upgraded.
	kubernetes, older = "v1.36.1", "v1.35.0"

	// stepTimeout is the timeout of a block of commands. dumpTimeout is the timeout of the output after a failure.
	stepTimeout, dumpTimeout = 30 * time.Minute, 2 * time.Minute
)

// world is a checkout of this repository, in which a user runs commands.
type world struct {
	*testing.T

	checkout string
	env      []string
	// parsed makes Bash read commands, but not run them.
	parsed bool
}

// TestDockerClusters runs all scenarios, one after the other.
func TestDockerClusters(t *testing.T) {
	if os.Getenv(enabledEnv) == "" {
		t.Skipf("clusters in Docker take an hour, and %s is not set; see `make test-capd`", enabledEnv)
	}
	w := newWorld(t)
	w.step("the management cluster", func(w *world) { w.follow("## 1. Create the management cluster", "kind create") })
	t.Cleanup(func() { w.removeAll() })
	w.step("the image", func(w *world) { w.follow("## 2. Build the image and load it", "make image") })
	w.step("HelmOp is installed by clusterctl", func(w *world) {
		w.follow("## 3. Install Cluster API and HelmOp", "make release-manifests")
		w.follow("## 3. Install Cluster API and HelmOp", "kubectl wait")
	})
	w.step("with Calico, the nodes become Ready", func(w *world) {
		w.follow("## 4. Create a workload cluster", "clusterctl generate")
		w.follow("## 5. Install Calico with HelmOp", "kubectl apply")
		w.follow("## 5. Install Calico with HelmOp", "clusterctl get kubeconfig")
		w.nodesReady(calico, 2)
	})
	w.step("a change of values upgrades the release", func(w *world) {
		w.follow("## 6. Change something", "kubectl patch")
	})
	w.step("with Cilium in place of kube-proxy, the nodes become Ready", (*world).installCilium)
	w.step("Pods", (*world).pods)
	w.step("an upgrade of Kubernetes", (*world).upgrade)
	w.step("the deletion of a Cluster waits for a load balancer", (*world).deleteBalanced)
}

// newWorld checks what the suite needs, and prepares the checkout and the programs.
func newWorld(t *testing.T) *world {
	t.Helper()
	for _, program := range []string{"docker", "bash", "git", "go", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("make test-capd needs %s: %v", program, err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "docker", "version").CombinedOutput(); err != nil {
		t.Fatalf("make test-capd needs Docker, and its server does not answer: %v; start it, and check with "+
			"\"docker version\"\n%s", err, out)
	}
	root, err := binaries.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := binaries.Ensure(t.Context(), binaries.Options{Root: root, Progress: os.Stderr,
		Programs: []string{binaries.Kubectl, binaries.Clusterctl}})
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	bin := filepath.Join(work, "bin")
	if _, err := (testbed.ToolOptions{Root: root, Dir: bin}).Build(t.Context(), "kind", "sigs.k8s.io/kind"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{binaries.Kubectl, binaries.Clusterctl} {
		if err := os.Symlink(programs.Path(name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, checkout: filepath.Join(work, "checkout"), env: append(os.Environ(),
		"PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(work, "kubeconfig"),
		"XDG_CONFIG_HOME="+filepath.Join(work, "config"), "POD_SECURITY_STANDARD_ENABLED=false")}
	clone := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "file://"+root, w.checkout)
	if out, err := clone.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.run("mkdir -p out")
	return w
}

// step runs a part of the suite, which ends the suite if it fails.
func (w *world) step(name string, do func(*world)) {
	w.Helper()
	if !w.Run(name, func(t *testing.T) {
		part := &world{T: t, checkout: w.checkout, env: w.env, parsed: w.parsed}
		t.Cleanup(func() {
			if t.Failed() {
				part.dump()
			}
		})
		do(part)
	}) {
		w.FailNow()
	}
}

// follow runs a block of the quick start, with the names of the suite.
func (w *world) follow(heading, contains string) {
	w.Helper()
	block, err := documented(heading, contains)
	if err != nil {
		w.Fatal(err)
	}
	w.run(block)
}

// documented returns a block of the quick start, with the names of the suite.
func documented(heading, contains string) (string, error) {
	block, err := commands.Block(filepath.Join("..", ".."), "docs/quick-start.md", heading, contains)
	return strings.NewReplacer("-qx helmop", "-qx "+prefix, "--name helmop", "--name "+prefix,
		"kind-helmop", "kind-"+prefix, "helmop-control-plane", prefix+"-control-plane",
		"cluster demo", "cluster "+calico, "kubeconfig demo", "kubeconfig "+calico, "demo.kubeconfig", calico+".kubeconfig").
		Replace(block), err
}

// run runs commands in the checkout, and returns their output.
func (w *world) run(commands string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), stepTimeout)
	defer cancel()
	out, err := w.try(ctx, commands)
	if err != nil {
		w.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	return out
}

func (w *world) try(ctx context.Context, commands string) (string, error) {
	args := []string{"-euo", "pipefail", "-c", commands}
	if w.parsed {
		args = append([]string{"-n"}, args...)
	}
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Dir, cmd.Env = w.checkout, w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// dump logs the state of the management cluster.
func (w *world) dump() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), dumpTimeout)
	defer cancel()
	out, err := w.try(ctx, "kubectl get clusters,machines,hop,hopr -A -o wide; kubectl get hopr -A -o yaml; "+
		"kubectl -n helmop-system logs deployment/helmop-controller-manager --tail=60")
	w.Logf("%v\n%s", err, out)
}

// removeAll removes all clusters. Without the provider, the containers of workload clusters stay, so they are removed
// by their label, too.
func (w *world) removeAll() {
	if os.Getenv(keepEnv) != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), stepTimeout)
	defer cancel()
	for _, name := range []string{calico, cilium, prefix} {
		if out, err := w.try(ctx, "kind delete cluster --name "+name); err != nil {
			w.Errorf("%v: %s", err, out)
		}
	}
	if out, err := w.try(ctx, "docker rm --force --volumes "+registryName); err != nil {
		w.Errorf("%v: %s", err, out)
	}
}
