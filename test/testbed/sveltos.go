// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// SveltosTool is the folder of hack/tools that pins the addon-controller of Sveltos.
	SveltosTool = "sveltos"
	// SveltosModule is its module.
	SveltosModule = "github.com/projectsveltos/addon-controller"

	// sveltosLibrary has the CustomResourceDefinitions that all controllers of Sveltos share.
	sveltosLibrary = "github.com/projectsveltos/libsveltos"
	// sveltosNamespace is the namespace in which Sveltos is installed.
	sveltosNamespace = "projectsveltos"
)

// StartSveltos builds the addon-controller of Sveltos, and installs its CustomResourceDefinitions. It starts the
// controller with the permissions of the administrator, and returns when the controller is ready. The controller sends
// no telemetry. No other controller or agent of Sveltos runs: to install charts in Clusters of Cluster API, the
// addon-controller needs none.
func (m *Management) StartSveltos(ctx context.Context, opts ToolOptions) (*process.Process, error) {
	binary, _, err := m.installTool(ctx, opts, SveltosTool, SveltosModule+"/cmd", SveltosModule, sveltosLibrary)
	if err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sveltosNamespace}}
	if err := m.Client.Create(ctx, namespace); err != nil {
		return nil, err
	}
	kubeconfig, err := m.toolKubeconfig(opts)
	if err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(3)
	if err != nil {
		return nil, err
	}
	health := process.Loopback(ports[0])
	return startTool(ctx, opts, process.Spec{
		Name: "sveltos-addon-controller", Path: binary,
		Args: []string{
			"--health-addr=" + health,
			"--diagnostics-address=" + process.Loopback(ports[1]),
			"--insecure-diagnostics",
			fmt.Sprintf("--webhook-port=%d", ports[2]),
			"--disable-telemetry",
		},
		Env: []string{"KUBECONFIG=" + kubeconfig, "NAMESPACE=" + sveltosNamespace, "HOME=" + opts.Dir,
			"TMPDIR=" + opts.Dir},
	}, "http://"+health+"/readyz")
}
