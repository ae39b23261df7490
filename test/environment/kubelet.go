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
)

const (
	// kubeletPeriod is the time between two checks of Pods and processes.
	kubeletPeriod = 200 * time.Millisecond
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
	env *Environment
	// images are the programs by image name. A Pod with another image does not run.
	images map[string]string
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	running map[types.UID]*container
	// started are the numbers of starts by image name.
	started map[string]int
	err     error
}

// container is the program of a pod.
type container struct {
	*Manager
	image string
	// restartAt is the earliest time at which the program is started again after it ended.
	restartAt time.Time
	// readyAt is the last time at which the program reported ready.
	readyAt time.Time
}

// isReady reports whether a program counts as ready. A program that was ready stays ready if a busy machine lets it
// miss a probe. Otherwise, of two old versions of a Deployment, Kubernetes would stop the one that works: it stops Pods
// that are not ready first.
func isReady(running bool, readyAt, now time.Time) bool {
	return running && now.Sub(readyAt) < unreadyAfter
}

// StartKubelet runs the Pods in the manager's namespace until Stop. images has the program for each image.
func (e *Environment) StartKubelet(images map[string]string) *Kubelet {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Kubelet{env: e, images: images, cancel: cancel, done: make(chan struct{}), running: map[types.UID]*container{},
		started: map[string]int{}}
	go k.run(ctx)
	return k
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

// pass starts the programs of new Pods, stops those of deleted Pods, and reports the status of all.
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
			if err := manager.Stop(ctx); err != nil {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.err = errors.Join(k.err, fmt.Errorf("stop a manager: %w", err))
			}
		}()
	}
	return errors.Join(errs...)
}

// sync runs the program of a Pod, if its image is known, and reports whether the Pod is ready.
func (k *Kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	program, known := k.images[pod.Spec.Containers[0].Image]
	ready := false
	if known {
		one, err := k.ensure(ctx, pod, program)
		if err != nil {
			return err
		}
		if answersReady(ctx, one.Manager) {
			one.readyAt = time.Now()
		}
		ready = isReady(one.Running(), one.readyAt, time.Now())
	}
	return k.report(ctx, pod, known, ready)
}

func (k *Kubelet) ensure(ctx context.Context, pod *corev1.Pod, program string) (*container, error) {
	k.mu.Lock()
	known := k.running[pod.UID]
	k.mu.Unlock()
	if known != nil && (known.Running() || time.Now().Before(known.restartAt)) {
		return known, nil
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
	one := &container{Manager: m, image: pod.Spec.Containers[0].Image, restartAt: time.Now().Add(restartPause)}
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

// report writes the status of a Pod if it has changed.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, running, ready bool) error {
	phase, status := corev1.PodPending, corev1.ConditionFalse
	if running {
		phase = corev1.PodRunning
	}
	if ready {
		status = corev1.ConditionTrue
	}
	for _, known := range pod.Status.Conditions {
		if known.Type == corev1.PodReady && known.Status == status && pod.Status.Phase == phase {
			return nil
		}
	}
	before := pod.DeepCopy()
	pod.Status.Phase, pod.Status.Conditions = phase, nil
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
