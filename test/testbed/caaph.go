// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// CAAPHTool is the folder of hack/tools that pins CAAPH.
	CAAPHTool = "caaph"
	// CAAPHModule is the module of CAAPH.
	CAAPHModule = "sigs.k8s.io/cluster-api-addon-provider-helm"
)

// StartCAAPH builds the manager of the Cluster API add-on provider for Helm and installs its CustomResourceDefinitions
// and webhooks. It starts the manager with the permissions of the administrator. It returns when the manager is ready.
func (m *Management) StartCAAPH(ctx context.Context, opts ToolOptions) (*process.Process, error) {
	binary, modules, err := m.installTool(ctx, opts, CAAPHTool, CAAPHModule, CAAPHModule)
	if err != nil {
		return nil, err
	}
	return m.startCAAPH(ctx, opts, binary, filepath.Join(modules[0].Dir, "config", "webhook", "manifests.yaml"))
}

// startCAAPH starts the manager, and registers its webhooks when they are served.
func (m *Management) startCAAPH(ctx context.Context, opts ToolOptions, binary, webhooks string) (
	*process.Process, error,
) {
	certs := filepath.Join(opts.Dir, "webhook-certs")
	kubeconfig, err := m.toolKubeconfig(opts)
	if err != nil {
		return nil, err
	}
	ca, err := writeServingCert(certs)
	if err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(3)
	if err != nil {
		return nil, err
	}
	health, hooks := process.Loopback(ports[0]), process.Loopback(ports[2])
	p, err := startTool(ctx, opts, process.Spec{
		Name: "caaph-manager", Path: binary,
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--health-addr=" + health,
			"--diagnostics-address=" + process.Loopback(ports[1]),
			"--insecure-diagnostics",
			fmt.Sprintf("--webhook-port=%d", ports[2]),
			"--webhook-cert-dir=" + certs,
		},
		// The variables that its Deployment sets: Helm writes below these folders.
		Env: []string{"XDG_DATA_HOME=" + opts.Dir, "XDG_CONFIG_HOME=" + opts.Dir, "XDG_STATE_HOME=" + opts.Dir,
			"XDG_CACHE_HOME=" + opts.Dir, "XDG_CONFIG_DIRS=" + opts.Dir, "KUBECACHEDIR=" + opts.Dir, "TMPDIR=" + opts.Dir},
	}, "http://"+health+"/readyz")
	if err != nil {
		return nil, err
	}
	if err := m.registerWebhooks(ctx, webhooks, "https://"+hooks, ca); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// registerWebhooks creates the webhook configurations of a file, with the address of a process on this machine.
func (m *Management) registerWebhooks(ctx context.Context, file, address string, ca *pki.CA) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	local := func(config *admissionv1.WebhookClientConfig) {
		url := address + *config.Service.Path
		*config = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca.PEM()}
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var object client.Object
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			hooks := &admissionv1.MutatingWebhookConfiguration{}
			err, object = json.Unmarshal(raw, hooks), hooks
			for i := range hooks.Webhooks {
				local(&hooks.Webhooks[i].ClientConfig)
			}
		case "ValidatingWebhookConfiguration":
			hooks := &admissionv1.ValidatingWebhookConfiguration{}
			err, object = json.Unmarshal(raw, hooks), hooks
			for i := range hooks.Webhooks {
				local(&hooks.Webhooks[i].ClientConfig)
			}
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		object.SetName("caaph-" + strings.TrimSuffix(object.GetName(), "-configuration"))
		if err := m.Client.Create(ctx, object); err != nil {
			return err
		}
	}
}
