// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// newCachingManager returns a manager with a cache of Services. Its API server permits to list them, or not.
func newCachingManager(t *testing.T, mayList bool) (mgr ctrl.Manager, lists *atomic.Int64) {
	t.Helper()
	lists = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !mayList:
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden})
		case req.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case req.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
				Kind: "ServiceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
		}
		lists.Add(1)
	}))
	t.Cleanup(server.Close)
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL}, ctrl.Options{
		Scheme: clientgoscheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
			return mapper, nil
		},
	})
	if err == nil {
		_, err = mgr.GetCache().GetInformer(t.Context(), &corev1.Service{}, cache.BlockUntilSynced(false))
	}
	if err != nil {
		t.Fatal(err)
	}
	return mgr, lists
}

// lastWork is a runnable that begins, and ends when the test closes end.
type lastWork struct{ begun, end chan struct{} }

func (l *lastWork) Start(context.Context) error {
	close(l.begun)
	<-l.end
	return nil
}

// TestManagerEndsWhileCachesWait checks that a manager ends although it may not list the objects of its caches.
func TestManagerEndsWhileCachesWait(t *testing.T) {
	t.Parallel()
	mgr, lists := newCachingManager(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx, mgr, nil) }()
	g := gomega.NewWithT(t)
	g.Eventually(lists.Load).WithTimeout(time.Minute).Should(gomega.BeNumerically(">", 0))
	g.Consistently(ended).WithTimeout(200 * time.Millisecond).ShouldNot(gomega.Receive())
	cancel()
	g.Eventually(ended).WithTimeout(time.Minute).Should(gomega.Receive(gomega.BeNil()))
}

// TestManagerEndsItsWork checks that a manager whose caches are synced waits for its running work.
func TestManagerEndsItsWork(t *testing.T) {
	t.Parallel()
	mgr, _ := newCachingManager(t, true)
	work := &lastWork{begun: make(chan struct{}), end: make(chan struct{})}
	if err := mgr.Add(work); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx, mgr, nil) }()
	g := gomega.NewWithT(t)
	g.Eventually(work.begun).WithTimeout(time.Minute).Should(gomega.BeClosed())
	cancel()
	g.Consistently(ended).WithTimeout(200 * time.Millisecond).ShouldNot(gomega.Receive())
	close(work.end)
	g.Eventually(ended).WithTimeout(time.Minute).Should(gomega.Receive(gomega.BeNil()))
}
