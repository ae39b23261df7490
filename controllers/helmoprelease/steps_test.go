// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

func benchReconciler(b *controllertest.ReleaseBench) *Reconciler {
	c := b.Client()
	renderer := render.New(references.NewReader(c, c), clusterview.NewReader(c, c))
	return &Reconciler{client: c, live: c, renderer: renderer, guard: selection.NewGuard(c),
		intents: deletionintent.Reader{Live: c, Renderer: renderer},
		gate:    dependencies.Gate{Client: c, Live: c, Now: time.Now}}
}

// TestStillServes checks that a release that is not in the cache counts as a release of another shard. A failed read
// must return an error.
func TestStillServes(t *testing.T) {
	t.Parallel()
	unread := errors.New("unread")
	for name, test := range map[string]struct {
		answer         error
		ok, otherShard bool
		want           error
	}{
		"exists":         {ok: true},
		"does not exist": {answer: apierrors.NewNotFound(schema.GroupResource{}, "child"), otherShard: true},
		"cannot be read": {answer: unread, want: unread},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			c, ok := b.Client().(client.WithWatch)
			if !ok {
				t.Fatal("the client cannot watch")
			}
			r := &Reconciler{client: interceptor.NewClient(c, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return test.answer
				},
			})}
			scope := &releaseScope{release: b.Release}
			if now, err := r.stillServes(t.Context(), scope); (now != nil) != test.ok ||
				scope.isOfOtherShard != test.otherShard ||
				!errors.Is(err, test.want) {
				t.Errorf("%v, %v, of another shard: %t", now, err, scope.isOfOtherShard)
			}
		})
	}
}

// TestReplaceChild checks that the annotation with the replacing revision is written before the deletion.
func TestReplaceChild(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
	c := b.Client()
	for range 2 {
		child := &addonsv1.HelmOpRelease{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.Release), child); err != nil {
			t.Fatal(err)
		}
		if err := apiutil.ReplaceChild(t.Context(), c, child, 7); err != nil {
			t.Fatal(err)
		}
	}
	child := &addonsv1.HelmOpRelease{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.Release), child); err != nil {
		t.Fatal(err)
	}
	if number, ok := apiutil.ReplacedBy(child); !ok || number != 7 || child.DeletionTimestamp.IsZero() {
		t.Errorf("replaced by %d, %t, deleted at %s", number, ok, child.DeletionTimestamp)
	}
	child.Name = "gone"
	if err := apiutil.ReplaceChild(t.Context(), c, child, 8); err != nil {
		t.Errorf("a HelmOpRelease that does not exist: %v", err)
	}
}
