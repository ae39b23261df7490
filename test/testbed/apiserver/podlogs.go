// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// LogNode is the node that ServeLogs creates.
const LogNode = "node-with-logs"

// logsResource has an object for each Pod with a log. It names the files.
var logsResource = schema.GroupVersionResource{Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: "logs"}

// LogFiles are the paths of the logs of a container, in the format in which container runtimes write logs for kubelets.
type LogFiles struct {
	// Current is the log of the container. Previous is the log before the last restart; it may be missing.
	Current, Previous string
}

// ServeLogs creates the node LogNode. Its kubelet is kwok. The API server then serves logs of the Pods that are
// assigned to the node, see SetLog. kwok changes nothing else in the Pods. Logs are not served after Rotate.
func (s *Server) ServeLogs(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// kwok watches the kind from its start on.
	_, err := envtest.InstallCRDs(s.restConfig(), envtest.CRDInstallOptions{Paths: []string{s.opts.Binaries.KwokCRDs},
		ErrorIfPathMissing: true, MaxTime: startTimeout})
	if err != nil {
		return err
	}
	serving, err := s.ca.Server("kubelet", "127.0.0.1")
	if err != nil {
		return err
	}
	err = s.writeFiles(map[string][]byte{kubeletCertFile: serving.Cert, kubeletKeyFile: serving.Key})
	if err != nil {
		return err
	}
	// kwok requires stages. The usual stages for Pods would write the status of the Pods.
	if err := s.writeStages("node-*.yaml"); err != nil {
		return err
	}
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	if err := s.createLogNode(ctx, port); err != nil {
		return err
	}
	if err := s.startHelper(ctx, binaries.Kwok, "kwok", s.kubeletArgs(port), "system:masters"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.helpers[len(s.helpers)-1].WaitHealthy(ctx, httpOK("http://"+process.Loopback(port)+"/healthz"))
}

func (s *Server) kubeletArgs(port int) func(kubeconfig string) []string {
	return func(kubeconfig string) []string {
		return []string{
			"--kubeconfig=" + kubeconfig,
			"--manage-single-node=" + LogNode,
			"--server-address=" + process.Loopback(port),
			"--node-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + s.file(kubeletCertFile),
			"--tls-private-key-file=" + s.file(kubeletKeyFile),
			"--config=" + s.file(stagesFile),
			"--enable-crds=Logs",
		}
	}
}

// createLogNode creates the node. The API server connects to the first address that it prefers, which is the host name.
func (s *Server) createLogNode(ctx context.Context, port int) error {
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return err
	}
	const address = "127.0.0.1"
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: LogNode},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: address}, {Type: corev1.NodeInternalIP, Address: address}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the node %s: %w", LogNode, err)
	}
	return nil
}

// SetLog sets the files with the log of a container of a Pod, once for each Pod. The Pod need not be assigned to
// LogNode yet, and the files need not exist yet.
func (s *Server) SetLog(ctx context.Context, namespace, pod, container string, files LogFiles) error {
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		return err
	}
	logs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"logs": []any{map[string]any{
		"containers": []any{container}, "logsFile": files.Current, "previousLogsFile": files.Previous,
	}}}}}
	logs.SetGroupVersionKind(logsResource.GroupVersion().WithKind("Logs"))
	logs.SetName(pod)
	_, err = client.Resource(logsResource).Namespace(namespace).Apply(ctx, pod, logs,
		metav1.ApplyOptions{FieldManager: "helmop-testbed", Force: true})
	return err
}
