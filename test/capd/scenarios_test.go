// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package capd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	// registryName is the container with the charts of this repository. Containers of kind reach it by its name.
	registryName = prefix + "-registry"
	// image runs the commands of the chart app.
	image = "registry.k8s.io/e2e-test-images/busybox:1.29-4"
	// ofApp selects the release of the HelmOp app.
	ofApp = "hopr -l addons.cluster.x-k8s.io/helmop-name=app "
)

// app is a HelmOp with the chart app of this repository.
const app = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: app, namespace: default}
spec:
  clusterSelector: {matchLabels: {cni: calico}}
  source: {url: "oci://` + registryName + `:5000/charts/app", insecure: true, ref: {tag: 1.0.0}}
  release: {namespace: app}
  health: {timeout: 2m}
  beforeClusterDelete: {timeout: 10m}
  values: {image: "` + image + `"}
`

// in is kubectl for a workload cluster.
func in(cluster string) string { return "kubectl --kubeconfig out/" + cluster + ".kubeconfig " }

// nodesReady waits until a Cluster has a number of nodes, all Ready.
func (w *world) nodesReady(cluster string, count int) {
	w.Helper()
	w.run(fmt.Sprintf(`until [[ $(%[1]sget nodes --no-headers | wc -l) == %[2]d ]]; do sleep 5; done
%[1]swait --for=condition=Ready nodes --all --timeout=15m`, in(cluster), count))
}

// becomes waits until the HelmOp app is, or is not, healthy with the current values.
func (w *world) becomes(healthy string) {
	w.Helper()
	w.run("until [[ -n $(kubectl get " + ofApp + "-o name) ]]; do sleep 2; done\n" +
		"kubectl wait " + ofApp + "--timeout=10m --for=condition=Healthy=" + healthy)
	if healthy == "True" {
		w.run("kubectl wait --for=condition=Ready --timeout=10m helmops.addons.cluster.x-k8s.io/app")
	}
}

// set replaces values of the HelmOp app.
func (w *world) set(values string) {
	w.Helper()
	w.run("kubectl patch helmops.addons.cluster.x-k8s.io/app --type=merge -p '{\"spec\":{\"values\":" + values + "}}'")
}

// pods runs the scenarios of TestHealth in test/e2e with Pods that run.
func (w *world) pods() {
	w.run("docker rm --force " + registryName + "\n" +
		"docker run --detach --name " + registryName + " --network kind --publish 127.0.0.1::5000 registry:3")
	w.run(`address=$(docker port ` + registryName + ` 5000/tcp)
cp -r test/charts/app out/app
sed -i 's/^version: .*/version: 1.0.0/' out/app/Chart.yaml
go run ./cmd/kubectl-helmop push out/app "oci://$address/charts/app" --plain-http
kubectl apply -f - <<'EOF'` + app + "EOF")
	w.becomes("True")
	for _, one := range []struct{ name, broken, repaired string }{
		{"a crash loop", `{"pod":"crash-loop"}`, `{"pod":""}`},
		{"an image that is missing", `{"pod":"image-missing"}`, `{"pod":""}`},
		{"a Job that fails", `{"job":"fail"}`, `{"job":"pass"}`},
	} {
		w.step(one.name, func(w *world) {
			w.set(one.broken)
			w.becomes("False")
			w.set(one.repaired)
			w.becomes("True")
		})
	}
	w.step("a DaemonSet on a new node", func(w *world) {
		w.set(`{"daemonSet":true}`)
		w.becomes("True")
		w.run("kubectl patch cluster " + calico + ` --type=json -p \
  '[{"op":"replace","path":"/spec/topology/workers/machineDeployments/0/replicas","value":2}]'`)
		w.nodesReady(calico, 3)
		w.run(in(calico) + "-n app rollout status daemonset/app --timeout=10m")
		w.becomes("True")
	})
	w.step("a lost node that comes back", func(w *world) {
		const workers = "get nodes -l '!node-role.kubernetes.io/control-plane' -o name | head -n 1"
		node := strings.TrimSpace(w.run(in(calico) + workers))
		container := strings.TrimPrefix(node, "node/")
		w.run("docker pause " + container)
		w.run(in(calico) + "wait " + node + " --for=condition=Ready=Unknown --timeout=10m")
		w.becomes("False")
		w.run("docker unpause " + container)
		w.nodesReady(calico, 3)
		w.becomes("True")
	})
}

// installCilium creates a Cluster without kube-proxy, of an older version of Kubernetes, and applies the example.
func (w *world) installCilium() {
	generated := w.run("clusterctl generate cluster " + cilium + " --config out/clusterctl.yaml --infrastructure docker " +
		"--flavor development --kubernetes-version " + older + " --control-plane-machine-count=1 --worker-machine-count=1")
	manifests, err := withoutKubeProxy([]byte(generated))
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.checkout, "out", cilium+".yaml"), manifests, 0o600); err != nil {
		w.Fatal(err)
	}
	w.run("kubectl apply -f out/" + cilium + ".yaml\nkubectl label cluster " + cilium + " cni=cilium --overwrite\n" +
		"kubectl apply -f examples/cilium.yaml\n" +
		"kubectl patch helmops.addons.cluster.x-k8s.io/cilium --type=merge " +
		`-p '{"spec":{"beforeClusterUpgrade":{"timeout":"10m"}}}'` + "\n" +
		"kubectl wait --for=condition=Ready --timeout=25m helmops.addons.cluster.x-k8s.io/cilium\n" +
		"clusterctl get kubeconfig " + cilium + " > out/" + cilium + ".kubeconfig")
	w.nodesReady(cilium, 2)
	w.run(in(cilium) + "-n kube-system get daemonset cilium\n! " + in(cilium) + "-n kube-system get daemonset kube-proxy")
}

// withoutKubeProxy changes the output of `clusterctl generate cluster`: the class has another name, and its control
// planes do not install kube-proxy.
func withoutKubeProxy(generated []byte) ([]byte, error) {
	generated = bytes.ReplaceAll(generated, []byte("quick-start"), []byte("no-kube-proxy"))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(generated), 1<<16)
	var all bytes.Buffer
	changed := false
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if object.GetKind() == "KubeadmControlPlaneTemplate" {
			changed = true
			if err := unstructured.SetNestedStringSlice(object.Object, []string{"addon/kube-proxy"}, "spec", "template", "spec",
				"kubeadmConfigSpec", "initConfiguration", "skipPhases"); err != nil {
				return nil, err
			}
		}
		data, err := sigsyaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		all.WriteString("---\n")
		all.Write(data)
	}
	if !changed {
		return nil, errors.New("the manifests have no KubeadmControlPlaneTemplate")
	}
	return all.Bytes(), nil
}

// upgrade upgrades the Cluster with Cilium to the version of the quick start. The HelmOp holds the upgrade until its
// release is ready for the version.
func (w *world) upgrade() {
	w.run("kubectl patch cluster " + cilium + ` --type=merge -p '{"spec":{"topology":{"version":"` + kubernetes +
		`"}}}'`)
	const versions = `get nodes -o jsonpath='{range .items[*]}{.status.nodeInfo.kubeletVersion}{"\n"}{end}'`
	w.run("until [[ $(" + in(cilium) + versions + " | sort -u) == " + kubernetes + " ]]; do sleep 10; done")
	w.nodesReady(cilium, 2)
	w.run("kubectl wait --for=condition=Ready --timeout=10m helmops.addons.cluster.x-k8s.io/cilium")
}

// deleteBalanced deletes the Cluster with a Service of type LoadBalancer. A cloud controller manager deletes the load
// balancer with this finalizer. The test acts as the cloud controller manager. The Cluster must exist until the Service
// is deleted.
func (w *world) deleteBalanced() {
	const service = "-n app %s service app-balanced "
	w.set(`{"loadBalancer":true}`)
	w.run("until " + in(calico) + fmt.Sprintf(service, "get") + "; do sleep 2; done")
	w.run(in(calico) + fmt.Sprintf(service, "patch") + "--type=merge " +
		`-p '{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}'`)
	w.run("kubectl delete cluster " + calico + " --wait=false")
	w.run("until [[ -n $(" + in(calico) + fmt.Sprintf(service, "get") +
		"-o jsonpath='{.metadata.deletionTimestamp}') ]]; do sleep 2; done")
	w.run("[[ $(" + in(calico) + "get nodes --no-headers | wc -l) == 3 ]]")
	w.run(in(calico) + fmt.Sprintf(service, "patch") + `--type=merge -p '{"metadata":{"finalizers":null}}'`)
	w.run("kubectl wait --for=delete cluster/" + calico + " --timeout=15m")
}

// TestCommandsAreBash checks the commands of the scenarios, without Docker.
func TestCommandsAreBash(t *testing.T) {
	t.Parallel()
	w := &world{T: t, checkout: t.TempDir(), env: os.Environ(), parsed: true}
	w.pods()
	w.upgrade()
	w.deleteBalanced()
	if out, err := w.try(t.Context(), "until [[ -n $(echo) ]]; do"); err == nil {
		t.Errorf("commands without an end are accepted: %s", out)
	}
}

// TestWithoutKubeProxy checks the change of the manifests, without Docker.
func TestWithoutKubeProxy(t *testing.T) {
	t.Parallel()
	const generated = `kind: ClusterClass
metadata: {name: quick-start}
---
kind: KubeadmControlPlaneTemplate
metadata: {name: quick-start-control-plane}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {}}}}}
`
	got, err := withoutKubeProxy([]byte(generated))
	const want = `---
kind: ClusterClass
metadata:
  name: no-kube-proxy
---
kind: KubeadmControlPlaneTemplate
metadata:
  name: no-kube-proxy-control-plane
spec:
  template:
    spec:
      kubeadmConfigSpec:
        clusterConfiguration: {}
        initConfiguration:
          skipPhases:
          - addon/kube-proxy
`
	if string(got) != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := withoutKubeProxy([]byte("kind: Cluster\n")); err == nil {
		t.Error("manifests without a control plane are accepted")
	}
}

// TestQuickStartCanBeFollowed checks, without Docker, that the quick start has the blocks of the suite, and that no
// block touches the clusters of a user.
func TestQuickStartCanBeFollowed(t *testing.T) {
	t.Parallel()
	block, err := documented("## 1. Create the management cluster", "kind create")
	if err != nil || !strings.Contains(block, "kind create cluster --name "+prefix+" ") ||
		!strings.Contains(block, "use-context kind-"+prefix+"\n") {
		t.Errorf("%v: %s", err, block)
	}
	for heading, contains := range map[string][]string{
		"## 2. Build the image and load it":    {"make image"},
		"## 3. Install Cluster API and HelmOp": {"make release-manifests", "kubectl wait"},
		"## 4. Create a workload cluster":      {"clusterctl generate"},
		"## 5. Install Calico with HelmOp":     {"kubectl apply", "clusterctl get kubeconfig"},
		"## 6. Change something":               {"kubectl patch"},
	} {
		for _, text := range contains {
			block, err := documented(heading, text)
			if err != nil {
				t.Error(err)
			}
			for _, name := range []string{"cluster demo", "kubeconfig demo", "--name helmop\n", "--name demo"} {
				if strings.Contains(block+"\n", name) {
					t.Errorf("%s has %q:\n%s", heading, name, block)
				}
			}
			if strings.Contains(block, "--kubernetes-version") && !strings.Contains(block, kubernetes) {
				t.Errorf("the version of Kubernetes is not %s:\n%s", kubernetes, block)
			}
		}
	}
}
