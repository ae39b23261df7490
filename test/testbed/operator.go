// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// operatorTool is the folder of hack/tools that pins Cluster API Operator.
	operatorTool   = "capi-operator"
	operatorModule = "sigs.k8s.io/cluster-api-operator"
)

// StartOperator builds Cluster API Operator, installs its CustomResourceDefinitions, and starts it with the permissions
// of the administrator. It returns when the operator is ready. No webhook is registered: the webhooks of the operator
// only check and complete its objects.
func (m *Management) StartOperator(ctx context.Context, opts ToolOptions) (*process.Process, error) {
	binary, _, err := m.installTool(ctx, opts, operatorTool, operatorModule+"/cmd", operatorModule)
	if err != nil {
		return nil, err
	}
	certs := filepath.Join(opts.Dir, "webhook-certs")
	if _, err := writeServingCert(certs); err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(3)
	if err != nil {
		return nil, err
	}
	health := process.Loopback(ports[0])
	return startTool(ctx, opts, process.Spec{
		Name: "capi-operator", Path: binary,
		Args: []string{
			"--health-addr=" + health,
			"--diagnostics-address=" + process.Loopback(ports[1]),
			"--insecure-diagnostics",
			"--profiler-address=",
			fmt.Sprintf("--webhook-port=%d", ports[2]),
			"--webhook-cert-dir=" + certs,
		},
		Env: []string{"KUBECONFIG=" + m.kubeconfig, "HOME=" + opts.Dir, "TMPDIR=" + opts.Dir},
	}, "http://"+health+"/readyz")
}
