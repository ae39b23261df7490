// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// memoryLock is a lease in memory. After refuse, it refuses all requests, as an API server does after it has lost the
// ServiceAccount of the manager.
type memoryLock struct {
	mutex   sync.Mutex
	record  resourcelock.LeaderElectionRecord
	refused bool
}

func (l *memoryLock) refuse() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.refused = true
}

func (l *memoryLock) err() error {
	if l.refused {
		return errors.New("unauthorized")
	}
	return nil
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	record := l.record
	raw, _ := json.Marshal(record)
	return &record, raw, l.err()
}

func (l *memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.err(); err != nil {
		return err
	}
	l.record = record
	return nil
}

func (*memoryLock) RecordEvent(string) {}
func (*memoryLock) Identity() string   { return "manager" }
func (*memoryLock) Describe() string   { return "lease in memory" }

// TestStoppingManagerEndsWithoutLease checks that a manager which stops waits for its work only while it has its lease.
// The next leader resumes the work as soon as the lease ends.
func TestStoppingManagerEndsWithoutLease(t *testing.T) {
	t.Parallel()
	const leaseDuration, deadline, retry = 15 * time.Second, 10 * time.Second, 2 * time.Second
	for name, lost := range map[string]bool{"lost": true, "renewed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lock := &memoryLock{}
				lease := &leaderLease{Interface: lock, deadline: deadline}
				mgr, err := ctrl.NewManager(&rest.Config{Host: "https://unused.invalid"}, ctrl.Options{
					Scheme: clientgoscheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
					MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
						return meta.NewDefaultRESTMapper(nil), nil
					},
					LeaderElection: true, LeaderElectionID: "test", LeaderElectionResourceLockInterface: lease,
					LeaseDuration: ptr.To(leaseDuration), RenewDeadline: ptr.To(deadline), RetryPeriod: ptr.To(retry),
					LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: ptr.To(time.Minute),
				})
				work := &lastWork{begun: make(chan struct{}), end: make(chan struct{})}
				if err == nil {
					err = mgr.Add(work)
				}
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- start(ctx, mgr, lease) }()
				<-work.begun
				cancel()
				stopped := time.Now()
				if lost {
					lock.refuse()
				}
				// A manager that keeps its lease has 50 s of work.
				end := time.AfterFunc(50*time.Second, func() { close(work.end) })
				err = <-ended
				after := time.Since(stopped)
				if lost != (err != nil) || lost && after >= leaseDuration || !lost && after < 50*time.Second {
					t.Errorf("start returned %v after %s", err, after)
				}
				if end.Stop() {
					close(work.end)
				}
			})
		})
	}
}

// TestLeaderLease checks where leader election writes its lease, and that a release of the lease is no renewal.
func TestLeaderLease(t *testing.T) {
	t.Parallel()
	const name = "controller-leader-election-helmop-a"
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests = append(requests, req.Method+" "+req.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		})
	}))
	t.Cleanup(server.Close)
	options := &Options{leaderElect: true, leaderElectNamespace: "ns", shard: "a"}
	config := &rest.Config{Host: server.URL, UserAgent: "manager"}
	lease, lock, err := newLeaderLease(config, options)
	if err != nil {
		t.Fatal(err)
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity()}
	err = lease.Create(t.Context(), record)
	created := lease.renewed.Load()
	err = errors.Join(err, lease.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	released := lease.renewed.Load()
	err = errors.Join(err, lease.Update(t.Context(), record))
	renewed := lease.renewed.Load()
	if err != nil || created == nil || released != created || renewed == created {
		t.Errorf("created at %v, released at %v, renewed at %v: %v", created, released, renewed, err)
	}
	const path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
	put := "PUT " + path + "/" + name
	if want := []string{"POST " + path, put, put}; !slices.Equal(requests, want) {
		t.Errorf("requests: %q, want %q", requests, want)
	}
	if config.UserAgent != "manager" || config.Timeout != 0 {
		t.Errorf("the config of the manager has the user agent %q and the timeout %s", config.UserAgent, config.Timeout)
	}
	options.leaderElectNamespace = ""
	if _, _, err := newLeaderLease(&rest.Config{}, options); err == nil {
		t.Error("no error without a namespace")
	}
}
