// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// countingReader counts reads, and can fail.
type countingReader struct {
	client.Reader

	mu    sync.Mutex
	reads int
	err   error
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	options ...client.GetOption,
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.err != nil {
		return r.err
	}
	return r.Reader.Get(ctx, key, obj, options...)
}

// TestPublishesPlans checks that the result follows upgrades of Cluster API, with one read from the API server for each
// generation of the CustomResourceDefinition.
func TestPublishesPlans(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := func(uid string, generation int64, hasPlan map[string]bool) client.Reader {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			controllertest.DefinitionOfClusters(uid, generation, hasPlan)).Build()
	}
	none := map[string]bool{}
	old, ours := map[string]bool{"v1beta1": true}, map[string]bool{clusterv1.GroupVersion.Version: true}
	live := &countingReader{Reader: fake.NewClientBuilder().WithScheme(scheme).Build()}
	cached := &countingReader{Reader: live.Reader}
	reader := NewReader(cached, live)
	for _, step := range []struct {
		about        string
		cached, live client.Reader
		want         bool
		reads        int
	}{
		{"no CustomResourceDefinition", nil, nil, false, 0},
		{"Cluster API 1.13", stored("a", 1, none), stored("a", 1, none), false, 1},
		{"again", nil, nil, false, 1},
		{"the cache is behind", nil, stored("a", 2, ours), false, 1},
		{"Cluster API 1.14", stored("a", 2, ours), nil, true, 2},
		{"again", nil, nil, true, 2},
		{"another change", stored("a", 4, ours), stored("a", 5, ours), true, 3},
		{"the cache follows", stored("a", 5, ours), nil, true, 3},
		{"created again, older", stored("b", 1, old), stored("b", 1, old), false, 4},
	} {
		if step.cached != nil {
			cached.Reader = step.cached
		}
		if step.live != nil {
			live.Reader = step.live
		}
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if got, err := reader.PublishesPlans(t.Context()); err != nil || got != step.want {
					t.Errorf("%s: %t, %v", step.about, got, err)
				}
			})
		}
		wait.Wait()
		if live.reads != step.reads {
			t.Errorf("%s: %d reads, want %d", step.about, live.reads, step.reads)
		}
	}
}

// TestUnknownPlans checks that a failed read is an error, and is repeated.
func TestUnknownPlans(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(controllertest.DefinitionOfClusters("a", 1,
		map[string]bool{clusterv1.GroupVersion.Version: true})).Build()
	refused := errors.New("refused")
	live, cached := &countingReader{Reader: stored, err: refused}, &countingReader{Reader: stored, err: refused}
	reader := NewReader(cached, live)
	for range 2 {
		_, err := reader.PublishesPlans(t.Context())
		if !errors.Is(err, refused) || !strings.Contains(err.Error(), "clusters.cluster.x-k8s.io") {
			t.Errorf("error = %v", err)
		}
		cached.err = nil
	}
	live.err = nil
	if got, err := reader.PublishesPlans(t.Context()); err != nil || !got || live.reads != 2 {
		t.Errorf("%t, %v after %d reads", got, err, live.reads)
	}
}
