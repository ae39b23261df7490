// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// liveHelmOps is an API server that lists HelmOps at a resourceVersion, or fails.
type liveHelmOps struct {
	client.Reader
	resourceVersion string
	err             error
	lists           int
}

func (l *liveHelmOps) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	l.lists++
	applied := (&client.ListOptions{}).ApplyOptions(options)
	if applied.Limit != 1 || applied.Namespace != "fleet" || applied.Raw != nil {
		return errors.New("not a short list of the newest state")
	}
	if l.err != nil {
		return l.err
	}
	list.(*metav1.PartialObjectMetadataList).ResourceVersion = l.resourceVersion
	return nil
}

// TestManagerEndsAfterRestore checks that each replica ends when the API server is behind the caches, and only then.
func TestManagerEndsAfterRestore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cached string
		live   liveHelmOps
		ends   bool
	}{
		"restored":                       {"1200", liveHelmOps{resourceVersion: "1000"}, true},
		"restored to a shorter number":   {"1200", liveHelmOps{resourceVersion: "999"}, true},
		"nothing has changed":            {"1200", liveHelmOps{resourceVersion: "1200"}, false},
		"the cache is behind":            {"999", liveHelmOps{resourceVersion: "1200"}, false},
		"the cache has no list yet":      {"", liveHelmOps{resourceVersion: "1200"}, false},
		"the cache's version is unusual": {"12-a", liveHelmOps{resourceVersion: "1000"}, false},
		"the live version is unusual":    {"1200", liveHelmOps{resourceVersion: "10-a"}, false},
		"the API server does not answer": {"1200", liveHelmOps{err: errors.New("down")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := gomega.NewWithT(t)
				check := &restoreCheck{cached: func() string { return test.cached }, live: &test.live, namespace: "fleet"}
				g.Expect(manager.LeaderElectionRunnable(check).NeedLeaderElection()).To(gomega.BeFalse())
				ctx, cancel := context.WithTimeout(t.Context(), 10*restoreInterval+time.Second)
				defer cancel()
				err := check.Start(ctx)
				if test.ends {
					g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("the caches of the manager are at " + test.cached)))
					g.Expect(test.live.lists).To(gomega.Equal(1))
					return
				}
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(test.live.lists).To(gomega.Equal(10), "one request a minute")
			})
		})
	}
}

// TestElectionChecksForRestore checks that a replica that becomes the leader does not wait for the next minute.
func TestElectionChecksForRestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		elected := make(chan struct{})
		check := &restoreCheck{cached: func() string { return "1200" }, live: &liveHelmOps{resourceVersion: "1000"},
			namespace: "fleet", elected: elected}
		time.AfterFunc(time.Second, func() { close(elected) })
		begun := time.Now()
		g.Expect(check.Start(t.Context())).To(gomega.HaveOccurred())
		g.Expect(time.Since(begun)).To(gomega.Equal(time.Second))
	})
}

// TestRestoreCheckFollowsHelmOps checks that the check compares HelmOps with the cache of HelmOps. Other kinds may be
// in another etcd.
func TestRestoreCheckFollowsHelmOps(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	check := &restoreCheck{}
	check.newInformer(&toolscache.ListWatch{}, &addonsv1.HelmOpRelease{}, 0, nil)
	check.newInformer(&toolscache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, nil)
	g.Expect(check.cached).To(gomega.BeNil())
	check.newInformer(&toolscache.ListWatch{}, &addonsv1.HelmOp{}, 0, nil)
	g.Expect(check.cached()).To(gomega.BeEmpty())
}
