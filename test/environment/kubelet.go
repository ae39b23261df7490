// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

const (
	// kubeletPeriod is the time between two checks of Pods and processes.
	kubeletPeriod = 500 * time.Millisecond
	// restartPause is the time between two starts of a program that exits.
	restartPause = 2 * time.Second
	// unreadyAfter is how long a program that was ready may fail its probe before its Pod becomes unready. It is the
	// default of a kubelet.
	unreadyAfter = 30 * time.Second
	// stopTimeout is how long a manager may take to stop.
	stopTimeout = 30 * time.Second
)

// Kubelet replaces a kubelet: the Pods of the manager's Deployment run as processes of this machine, and are ready if
// the processes report ready. Only the containers are replaced; the controllers that create the Pods, the arguments and
// the identity are real.
type Kubelet struct {
	env    *Environment
	opts   KubeletOptions
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	running map[types.UID]*container
	// started are the numbers of starts by image name.
	started map[string]int
	err     error
}

// KubeletOptions configure a Kubelet.
type KubeletOptions struct {
	// Images are the programs by image name. A Pod with another image does not run.
	Images map[string]string
	// Logs assigns the Pods to a simulated node, so that the API server serves their logs. Default: no node, no logs.
	Logs bool
}

// container is the program of a pod.
type container struct {
	*Manager
	pod   client.ObjectKey
	image string
	// restarts is how often the program was started again.
	restarts int32
	// log is the log that the API server serves. Nil without logs.
	log *podLog
	// restartAt is the earliest time at which the program is started again after it ended.
	restartAt time.Time
	// readyAt is the last time at which the program reported ready.
	readyAt time.Time
}

// isReady reports whether a program counts as ready. A program that was ready stays ready if it misses a probe on a
// busy machine. Otherwise, if a Deployment has two old versions, Kubernetes would stop the working one, because it
// first stops Pods that are not ready.
func isReady(running bool, readyAt, now time.Time) bool {
	return running && now.Sub(readyAt) < unreadyAfter
}

// StartKubelet runs the Pods in the manager's namespace until Stop.
func (e *Environment) StartKubelet(ctx context.Context, opts KubeletOptions) (*Kubelet, error) {
	if opts.Logs {
		if err := e.Management.Server.ServeLogs(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kubelet{env: e, opts: opts, cancel: cancel, done: make(chan struct{}), running: map[types.UID]*container{},
		started: map[string]int{}}
	go k.run(ctx)
	return k, nil
}

// Stop stops the Kubelet and its programs, and returns the errors since the start.
func (k *Kubelet) Stop() error {
	k.cancel()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	errs := []error{k.err}
	for _, manager := range k.running {
		errs = append(errs, manager.Kill())
	}
	return errors.Join(errs...)
}

// PIDs returns the ids of the running processes of an image, and how many processes of the image were started. An empty
// image means all images.
func (k *Kubelet) PIDs(image string) (pids []int, started int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.running {
		if one.Running() && (image == "" || image == one.image) {
			pids = append(pids, one.PID())
		}
	}
	for name, count := range k.started {
		if image == "" || image == name {
			started += count
		}
	}
	slices.Sort(pids)
	return pids, started
}

func (k *Kubelet) run(ctx context.Context) {
	defer close(k.done)
	ticker := time.NewTicker(kubeletPeriod)
	defer ticker.Stop()
	for {
		if err := k.pass(ctx); err != nil && ctx.Err() == nil {
			k.mu.Lock()
			k.err = err
			k.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pass starts the programs of new Pods, stops the programs of deleted Pods, and reports the status of all.
func (k *Kubelet) pass(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := k.env.Client.List(ctx, pods, client.InNamespace(Namespace)); err != nil {
		return err
	}
	exists := map[types.UID]bool{}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		exists[pod.UID] = true
		errs = append(errs, k.sync(ctx, pod))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, manager := range k.running {
		if exists[uid] {
			continue
		}
		delete(k.running, uid)
		// The next program runs meanwhile, as with a kubelet.
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			if err := errors.Join(manager.Stop(ctx), k.remove(ctx, uid, manager.pod)); err != nil {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.err = errors.Join(k.err, fmt.Errorf("stop a manager: %w", err))
			}
		}()
	}
	return errors.Join(errs...)
}

// remove removes a Pod whose program has ended. The API server does this itself for a Pod without a node.
func (k *Kubelet) remove(ctx context.Context, uid types.UID, key client.ObjectKey) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := k.env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// sync runs the program of a Pod, if its image is known, and reports whether the Pod is ready.
func (k *Kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	program, known := k.opts.Images[pod.Spec.Containers[0].Image]
	if !known {
		return k.report(ctx, pod, nil, false)
	}
	if k.opts.Logs && pod.Spec.NodeName == "" {
		return k.bind(ctx, pod)
	}
	one, err := k.ensure(ctx, pod, program)
	if err != nil {
		return err
	}
	if answersReady(ctx, one.Manager) {
		one.readyAt = time.Now()
	}
	return errors.Join(one.log.copy(), k.report(ctx, pod, one, isReady(one.Running(), one.readyAt, time.Now())))
}

func (k *Kubelet) ensure(ctx context.Context, pod *corev1.Pod, program string) (*container, error) {
	k.mu.Lock()
	known := k.running[pod.UID]
	k.mu.Unlock()
	if known != nil && (known.Running() || time.Now().Before(known.restartAt)) {
		return known, nil
	}
	if known != nil {
		if err := known.log.rotate(); err != nil {
			return nil, err
		}
	}
	dir, m := k.env.dir("pod-"+pod.Name), &Manager{}
	adapted, err := m.adaptedArgs(dir)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := k.env.Management.ServiceAccountKubeconfig(ctx, Namespace, pod.Spec.ServiceAccountName, tokenTTL)
	if err != nil {
		return nil, err
	}
	args := given(pod.Spec.Containers[0])
	m.Manager, err = testbed.StartManager(testbed.ManagerOptions{
		Binary: program, Dir: dir, Kubeconfig: kubeconfig, Args: append(args, adapted...),
	})
	if err != nil {
		return nil, err
	}
	k.env.mu.Lock()
	k.env.managers = append(k.env.managers, m)
	k.env.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	one := &container{Manager: m, pod: client.ObjectKeyFromObject(pod), image: pod.Spec.Containers[0].Image,
		restartAt: time.Now().Add(restartPause)}
	if known != nil {
		one.restarts, one.log = known.restarts+1, known.log
	} else if k.opts.Logs {
		one.log = newPodLog(dir, m.LogFile())
	}
	k.running[pod.UID] = one
	k.started[one.image]++
	return one, nil
}

func answersReady(ctx context.Context, manager *Manager) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+manager.HealthAddress+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// bind assigns a Pod to the node with logs, as a scheduler does.
func (k *Kubelet) bind(ctx context.Context, pod *corev1.Pod) error {
	err := k.env.Management.Server.SetLog(ctx, pod.Namespace, pod.Name, pod.Spec.Containers[0].Name,
		newPodLog(k.env.dir("pod-"+pod.Name), "").files())
	if err != nil {
		return err
	}
	return k.env.Client.SubResource("binding").Create(ctx, pod,
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: apiserver.LogNode}})
}

// report writes the status of a Pod if it has changed. one is nil if the Pod does not run.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, one *container, ready bool) error {
	phase, status := corev1.PodPending, corev1.ConditionFalse
	var containers []corev1.ContainerStatus
	if one != nil {
		phase = corev1.PodRunning
		containers = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: one.image, Ready: ready,
			RestartCount: one.restarts}}
	}
	if ready {
		status = corev1.ConditionTrue
	}
	for _, known := range pod.Status.Conditions {
		if known.Type == corev1.PodReady && known.Status == status && pod.Status.Phase == phase &&
			slices.EqualFunc(pod.Status.ContainerStatuses, containers, func(a, b corev1.ContainerStatus) bool {
				return a.RestartCount == b.RestartCount
			}) {
			return nil
		}
	}
	before := pod.DeepCopy()
	pod.Status.Phase, pod.Status.Conditions, pod.Status.ContainerStatuses = phase, nil, containers
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
	}
	err := k.env.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
