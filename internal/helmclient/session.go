/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// session is one action on one release.
type session struct {
	config  *action.Configuration
	storage *recordingDriver
	logs    *logBuffer
	// deletions returns the errors of deletions, which Helm reduces to "failed to delete release".
	deletions func() error
}

// openSession connects Helm with the target. ctx bounds everything but the writes to Helm's storage: the
// outcome of an action that ran out of time must still be recorded.
func (c *Client) openSession(ctx context.Context, target Target, desired Desired, logs *logBuffer) (*session, error) {
	conn, err := c.connections.get(target)
	if err != nil {
		return nil, err
	}
	conn.keepWarm()
	capabilities, err := conn.learnCapabilities(logs.printf)
	if err != nil {
		return nil, err
	}
	clients := &getter{conn: conn, config: conn.restConfig(ctx)}
	cluster := newKubeClient(ctx, clients, desired.Namespace, logs.printf)
	secrets := driver.NewSecrets(conn.core.Secrets(desired.Namespace))
	s := newSession(secrets, cluster, desired, logs)
	s.config.RESTClientGetter = clients
	s.config.Capabilities = capabilities
	s.deletions = cluster.deletionErrors
	return s, nil
}

// newSession returns a session over a storage and a cluster.
func newSession(inner driver.Driver, cluster kube.Interface, desired Desired, logs *logBuffer) *session {
	recording := newRecordingDriver(inner, attemptLabels(desired, 0))
	releases := storage.Init(recording)
	releases.Log = logs.printf
	return &session{
		config: &action.Configuration{
			Releases:       releases,
			KubeClient:     cluster,
			Log:            logs.printf,
			HookOutputFunc: func(_, _, _ string) io.Writer { return io.Discard },
		},
		storage:   recording,
		logs:      logs,
		deletions: func() error { return nil },
	}
}

// kubeClient is Helm's client of a cluster, within the bounds of one action.
type kubeClient struct {
	*kube.Client
	ctx context.Context

	mu        sync.Mutex
	deletions []error
}

func newKubeClient(ctx context.Context, clients *getter, namespace string, log action.DebugLog) *kubeClient {
	return &kubeClient{
		Client: &kube.Client{Factory: clients, Log: log, Namespace: namespace},
		ctx:    ctx,
	}
}

// IsReachable implements kube.Interface. Each action follows an observation, so asking once more would only add a
// request to every action.
func (k *kubeClient) IsReachable() error { return nil }

// Wait implements kube.Interface.
func (k *kubeClient) Wait(resources kube.ResourceList, timeout time.Duration) error {
	return k.Client.Wait(resources, k.remaining(timeout))
}

// WatchUntilReady implements kube.Interface.
func (k *kubeClient) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	return k.Client.WatchUntilReady(resources, k.remaining(timeout))
}

// WaitForDelete implements kube.InterfaceExt.
func (k *kubeClient) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	return k.Client.WaitForDelete(resources, k.remaining(timeout))
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation.
func (k *kubeClient) DeleteWithPropagationPolicy(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	result, errs := k.Client.DeleteWithPropagationPolicy(resources, policy)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deletions = append(k.deletions, errs...)
	return result, errs
}

func (k *kubeClient) deletionErrors() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.deletions...)
}

// remaining returns the timeout, cut to what is left of the action: Helm grants the whole timeout to each hook anew.
func (k *kubeClient) remaining(timeout time.Duration) time.Duration {
	deadline, ok := k.ctx.Deadline()
	if !ok {
		return timeout
	}
	// Zero would mean no timeout at all.
	return max(min(timeout, time.Until(deadline)), time.Millisecond)
}
