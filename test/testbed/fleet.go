// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	fleetModule = "github.com/rancher/fleet"
	// fleetTool is the folder of hack/tools that pins Fleet.
	fleetTool = "fleet"
	// fleetSystem is the namespace of Fleet, in all clusters.
	fleetSystem = "cattle-fleet-system"

	// FleetGarbageInterval is the shortest interval at which an agent looks for releases whose BundleDeployment was
	// deleted. Fleet's default is 15 minutes. An agent waits up to twice the interval.
	FleetGarbageInterval = 3 * time.Second

	// tokenSeconds is how long the tokens of Fleet's agents are valid.
	tokenSeconds = 24 * 60 * 60
)

// fleetEnv has what Fleet's chart sets.
var fleetEnv = []string{
	"NAMESPACE=" + fleetSystem, "FLEET_AGENT_REPLICA_COUNT=1",
	"CATTLE_ELECTION_LEASE_DURATION=30s", "CATTLE_ELECTION_RETRY_PERIOD=10s", "CATTLE_ELECTION_RENEW_DEADLINE=25s",
	"FLEET_AGENT_ELECTION_LEASE_DURATION=30s", "FLEET_AGENT_ELECTION_RETRY_PERIOD=10s",
	"FLEET_AGENT_ELECTION_RENEW_DEADLINE=25s",
}

// Fleet is the Fleet of Rancher: its controllers, and its agents, as processes.
type Fleet struct {
	management  *Management
	opts        ToolOptions
	controllers []*process.Process

	cancel context.CancelFunc
	done   chan struct{}
	// err is the error of the last pass of issueTokens. It is read after done is closed.
	err error
}

// InstallFleetCRDs installs the CustomResourceDefinitions of Fleet, from its module. root is the repository's root
// folder.
func (m *Management) InstallFleetCRDs(ctx context.Context, root string) error {
	module, err := ToolOptions{Root: root}.downloaded(ctx, fleetTool, fleetModule)
	if err != nil {
		return err
	}
	return m.installCRDsOf(filepath.Join(module.Dir, "charts", "fleet-crd", "templates"))
}

// StartFleet builds Fleet, installs its CustomResourceDefinitions, and starts its controllers with the permissions of
// the administrator. The controllers then register a Cluster of Fleet with spec.kubeConfigSecret. But no program runs
// the agent in the cluster: see StartAgent.
func (m *Management) StartFleet(ctx context.Context, opts ToolOptions) (*Fleet, error) {
	if err := opts.buildAll(ctx, fleetTool, opts.Dir+string(filepath.Separator),
		fleetModule+"/cmd/fleetcontroller", fleetModule+"/cmd/fleetagent"); err != nil {
		return nil, err
	}
	if err := m.InstallFleetCRDs(ctx, opts.Root); err != nil {
		return nil, err
	}
	if err := m.configureFleet(ctx); err != nil {
		return nil, err
	}
	f := &Fleet{management: m, opts: opts, done: make(chan struct{})}
	tokens, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	go f.issueTokens(tokens)
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// configureFleet creates the configuration of the controllers. Their chart creates the same.
func (m *Management) configureFleet(ctx context.Context) error {
	config := m.Server.RESTConfig()
	data, err := json.Marshal(map[string]any{
		"apiServerURL": config.Host, "apiServerCA": config.CAData, "agentTLSMode": "strict", "agentCheckinInterval": "15m",
		"garbageCollectionInterval": FleetGarbageInterval.String(),
	})
	if err != nil {
		return err
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetSystem}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleetSystem, Name: "fleet-controller"},
			Data: map[string]string{"config": string(data)}},
	} {
		if err := m.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// start starts the three controllers of Fleet. The first one reports when it is ready.
func (f *Fleet) start(ctx context.Context) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	health := process.Loopback(port)
	for _, controller := range []struct {
		name string
		args []string
	}{
		{"fleet-controller", []string{"--disable-metrics"}},
		{"helmops", []string{"helmops", "--disable-metrics"}},
		{"agentmanagement", []string{"agentmanagement", "--disable-bootstrap"}},
	} {
		p, err := f.run(controller.name, "fleetcontroller", f.management.kubeconfig, controller.args,
			"FLEET_HEALTHPROBE_BIND_ADDRESS="+health)
		if err != nil {
			return err
		}
		f.controllers = append(f.controllers, p)
	}
	return f.await(ctx, f.controllers[0], health)
}

// run starts a program of Fleet.
func (f *Fleet) run(name, program, kubeconfig string, args []string, env ...string) (*process.Process, error) {
	dir := filepath.Join(f.opts.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return process.Start(process.Spec{
		Name: name, Path: filepath.Join(f.opts.Dir, program), Args: args, LogFile: filepath.Join(f.opts.Dir, name+".log"),
		Env: slices.Concat(fleetEnv, env, []string{"KUBECONFIG=" + kubeconfig, "HOME=" + dir, "TMPDIR=" + dir}),
	})
}

// await waits until a program reports ready.
func (f *Fleet) await(ctx context.Context, p *process.Process, health string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return p.WaitHealthy(ctx, func(ctx context.Context) error { return probe(ctx, "http://"+health+"/readyz") })
}

// StartAgent starts the agent of a cluster that Fleet has registered, with the permissions of the administrator. It
// runs the program of the Deployment that Fleet has created in the cluster. It returns when the agent is ready.
func (f *Fleet) StartAgent(ctx context.Context, name string, server *apiserver.Server) (*process.Process, error) {
	data, err := server.Kubeconfig()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(f.opts.Dir, "agent-"+name+".kubeconfig")
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		return nil, err
	}
	if err := awaitRegistered(ctx, server); err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	health := process.Loopback(port)
	// The Deployment runs a second agent if the first one hangs; here, there is one.
	p, err := f.run("agent-"+name, "fleetagent", kubeconfig, []string{"--leader-elect=false"},
		"FLEET_AGENT_METRICS_BIND_ADDRESS=0", "FLEET_AGENT_PROBE_BIND_ADDRESS="+health)
	if err != nil {
		return nil, err
	}
	if err := f.await(ctx, p, health); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// awaitRegistered waits until Fleet has created what its agent needs in a cluster.
func awaitRegistered(ctx context.Context, server *apiserver.Server) error {
	c, err := client.New(server.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		// The agent replaces the first Secret by the second one.
		for _, name := range []string{"fleet-agent-bootstrap", "fleet-agent"} {
			err := c.Get(ctx, client.ObjectKey{Namespace: fleetSystem, Name: name}, &corev1.Secret{})
			if err == nil || client.IgnoreNotFound(err) != nil {
				return err == nil, err
			}
		}
		return false, nil
	})
}

// issueTokens is the controller of kube-controller-manager that writes tokens of ServiceAccounts into Secrets.
func (f *Fleet) issueTokens(ctx context.Context) {
	defer close(f.done)
	_ = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := f.management.issueTokens(ctx); ctx.Err() == nil {
			f.err = err
		}
		return false, nil // The wait ends with the context only.
	})
}

func (m *Management) issueTokens(ctx context.Context) error {
	secrets := &corev1.SecretList{}
	if err := m.Client.List(ctx, secrets,
		client.MatchingFields{"type": string(corev1.SecretTypeServiceAccountToken)}); err != nil {
		return err
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 {
			continue
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]}}
		request := &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)}}
		if err := m.Client.SubResource("token").Create(ctx, account, request); err != nil {
			return err
		}
		secret.Data = map[string][]byte{
			corev1.ServiceAccountTokenKey:     []byte(request.Status.Token),
			corev1.ServiceAccountNamespaceKey: []byte(secret.Namespace),
			corev1.ServiceAccountRootCAKey:    m.Server.RESTConfig().CAData,
		}
		if err := m.Client.Update(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// LogFiles returns the logs of the controllers.
func (f *Fleet) LogFiles() []string {
	files := make([]string, 0, len(f.controllers))
	for _, p := range f.controllers {
		files = append(files, p.LogFile())
	}
	return files
}

// Stop stops the controllers. It is an error if one has ended before. The caller stops the agents.
func (f *Fleet) Stop() error {
	f.cancel()
	<-f.done
	errs := []error{f.err}
	for _, p := range f.controllers {
		errs = append(errs, p.Unexpected(), p.Kill())
	}
	return errors.Join(errs...)
}
