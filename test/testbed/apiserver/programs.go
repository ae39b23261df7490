// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// probeTimeout is the timeout of one health probe, so that a hanging server does not block the poll.
const probeTimeout = 5 * time.Second

func (s *Server) startAPIServer(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return err
	}
	s.apiserver, err = s.run(ctx, binaries.KubeAPIServer, s.apiServerArgs(), func(ctx context.Context) error {
		return apiServerReady(ctx, client)
	})
	// An earlier process may have been stopped while it was frozen.
	s.hung = false
	return err
}

// apiServerReady also requires the namespaces. The server creates them after it reports ready, and all other objects
// need one.
func apiServerReady(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// httpOK returns a probe that requires status 200 of url.
func httpOK(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return nil
	}
}

// startHelpers starts the additional programs that the options request. Their health probes prove only that a program
// runs.
func (s *Server) startHelpers(ctx context.Context) error {
	if !s.opts.Controllers {
		return nil
	}
	// Without a node, a scheduler and the controllers of Pods, volumes and nodes have nothing to do.
	if s.opts.KwokNodes == 0 {
		return s.startHelper(ctx, binaries.Controllers, binaries.Controllers, s.controllersArgs, "system:masters")
	}
	if err := s.startHelper(ctx, binaries.KubeControllerManager, "system:kube-controller-manager",
		s.controllerManagerArgs); err != nil {
		return err
	}
	if err := s.startHelper(ctx, binaries.KubeScheduler, "system:kube-scheduler", s.schedulerArgs); err != nil {
		return err
	}
	if err := s.writeStages("*.yaml"); err != nil {
		return err
	}
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	if err := s.startHelper(ctx, binaries.Kwok, "kwok", s.kwokArgs(port), "system:masters"); err != nil {
		return err
	}
	return s.createNodes(ctx)
}

func (s *Server) startHelper(ctx context.Context, name, user string, args func(kubeconfig string) []string,
	groups ...string,
) error {
	data, err := s.userKubeconfig(user, groups...)
	if err != nil {
		return err
	}
	kubeconfig := s.file(name + ".kubeconfig")
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		return err
	}
	p, err := s.run(ctx, name, args(kubeconfig), func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	s.helpers = append(s.helpers, p)
	return nil
}

func (s *Server) stopHelpers(ctx context.Context) error {
	var errs []error
	for _, p := range s.helpers {
		if err := p.Unexpected(); err != nil {
			errs = append(errs, err)
		}
		errs = append(errs, p.Stop(ctx))
	}
	s.helpers = nil
	return errors.Join(errs...)
}

// createNodes registers the nodes that kwok keeps ready.
func (s *Server) createNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return err
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("500"),
	}
	for i := range s.opts.KwokNodes {
		name := fmt.Sprintf("node-%d", i)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name,
				Labels: map[string]string{
					corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				},
			},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the node %s: %w", name, err)
		}
	}
	return nil
}
