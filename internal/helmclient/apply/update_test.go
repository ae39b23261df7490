// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// endingObject is a cluster with one ConfigMap that is being deleted until a time.
type endingObject struct {
	gone time.Time
	// refusesChanges means that the API server accepts no change during the deletion, for example because the manifest
	// has finalizers.
	refusesChanges bool
	// finalizer is the only finalizer of the object; empty for a controller that is slow.
	finalizer string
	// isNew means that the object was created again.
	isNew bool
}

func (o *endingObject) roundTrip(req *http.Request) (*http.Response, error) {
	old := strings.Replace(helmtest.DeletingPod(), "Pod", "ConfigMap", 1)
	if o.finalizer != "" {
		old = strings.Replace(old, "example.com/slow", o.finalizer, 1)
	}
	const created = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"apps","uid":"new"}}`
	isGone := !time.Now().Before(o.gone)
	switch {
	case req.Method == http.MethodPost:
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if !isGone || o.isNew {
			return helmtest.Status(http.StatusConflict, "AlreadyExists")(req)
		}
		if bytes.Contains(body, []byte("resourceVersion")) {
			return helmtest.Status(http.StatusBadRequest, "BadRequest")(req)
		}
		o.isNew = true
		return helmtest.Answer(http.StatusCreated, created)(req)
	case o.isNew:
		return helmtest.Answer(http.StatusOK, created)(req)
	case isGone:
		return helmtest.Status(http.StatusNotFound, "NotFound")(req)
	case req.Method != http.MethodGet && o.refusesChanges:
		return helmtest.Status(http.StatusUnprocessableEntity, "Invalid")(req)
	default:
		return helmtest.Answer(http.StatusOK, old)(req)
	}
}

// TestUpdateAwaitsDeletions checks that an update creates an object again that was being deleted when the update began.
func TestUpdateAwaitsDeletions(t *testing.T) {
	const untilGone = 10 * time.Second
	manifest := func(data string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"apps"}%s}`, data)
	}
	for name, test := range map[string]struct {
		data                     string
		force, refusesChanges    bool
		fromNothing, isNeverGone bool
		finalizer                string
	}{
		"without a change": {},
		"patched":          {data: `,"data":{"key":"new"}`},
		"adopted":          {data: `,"data":{"key":"new"}`, fromNothing: true},
		"replaced":         {data: `,"data":{"key":"new"}`, force: true},
		"change refused":   {data: `,"data":{"key":"new"}`, refusesChanges: true},
		"never gone":       {data: `,"data":{"key":"new"}`, isNeverGone: true},
		"volume in use":    {data: `,"data":{"key":"new"}`, isNeverGone: true, finalizer: "kubernetes.io/pvc-protection"},
	} {
		t.Run(name, func(t *testing.T) {
			helmtest.InBubble(t, func(t *testing.T) {
				const timeout = time.Minute
				ctx, end := context.WithTimeout(t.Context(), timeout)
				defer end()
				cluster := &endingObject{gone: time.Now().Add(untilGone), refusesChanges: test.refusesChanges,
					finalizer: test.finalizer}
				if test.isNeverGone {
					cluster.gone = time.Now().Add(2 * timeout)
				}
				k, target := clientThrough(ctx, t, cluster.roundTrip, manifest(test.data))
				_, original := clientThrough(ctx, t, cluster.roundTrip, manifest(""))
				if test.fromNothing {
					original = nil
				}
				var steps []string
				k.Progress = func(what string) { steps = append(steps, what) }
				result, err := k.Update(original, target, test.force)
				if test.finalizer != "" {
					if err != nil || len(steps) != 1 {
						t.Errorf("error %v, steps %s", err, steps)
					}
					return
				}
				if test.isNeverGone {
					if !errors.Is(helmerr.Classify(err), helmerr.ErrTimeout) || !strings.Contains(err.Error(), `ConfigMap "a"`) {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil || len(result.Created) != 1 || uidOf(t, result.Created) != "new" {
					t.Fatalf("created %+v, error %v", result.Created, err)
				}
				const want = "applying 1 object, waiting for the end of deletions, applying 1 object"
				if got := strings.Join(steps, ", "); got != want {
					t.Errorf("the steps were %s", got)
				}
			})
		})
	}
}

// uidOf returns the UID of the first object.
func uidOf(t *testing.T, objects kube.ResourceList) string {
	t.Helper()
	object, err := meta.Accessor(objects[0].Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(object.GetUID())
}
