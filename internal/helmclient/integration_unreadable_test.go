// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// spoilRecord changes the Secret of a revision, as a person could.
func (b *bench) spoilRecord(revision int, spoil func(*corev1.Secret)) {
	b.t.Helper()
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	secret, err := secrets.Get(b.t.Context(), records.NameOf("demo", revision), metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	spoil(secret)
	if _, err := secrets.Update(b.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func garble(secret *corev1.Secret) { secret.Data[records.Key] = []byte("garbage") }

// tooManyValues adds more JSON values to a record than are permitted.
func tooManyValues(t *testing.T) func(*corev1.Secret) {
	return func(secret *corev1.Secret) {
		values := strings.TrimSuffix(strings.Repeat("{},", rendering.MaxRecordValues), ",")
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write([]byte(`{"name":"demo","version":1,"info":{"status":"deployed"},"config":{"a":[` + values + `]}}`))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		secret.Data[records.Key] = base64.StdEncoding.AppendEncode(nil, packed.Bytes())
	}
}

// TestIntegrationUnreadableRecord checks that no action starts if the newest record cannot be read. In particular, an
// uninstallation must not delete an incomplete set of objects. The documented remedies must work.
func TestIntegrationUnreadableRecord(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){"garbage": garble, "too many values": tooManyValues(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			b.spoilRecord(1, spoil)
			b.newProcess(run)
			b.wantNothingDestroyed(run)
		})
	}
	t.Run("after another", func(t *testing.T) {
		b := newBench(t)
		run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
		run.mustSettle(t)
		run.want("a2", helmtest.NewChart("2.0.0",
			map[string]string{"second.yaml": helmtest.ConfigMap("second", "2"), "first.yaml": helmtest.ConfigMap("first", "2")}))
		run.mustSettle(t)
		b.spoilRecord(2, garble)
		b.newProcess(run)
		_, err := run.act(t.Context(), decide.Uninstall(b.observe(run.desired), run.desired, model.Policy{}, time.Now()))
		helmtest.WantError(t, err, helmerr.ErrRecordDamaged, false, records.NameOf("demo", 2),
			"restore its Secret from a backup")
		b.wantConfigMap("first", "2")
		b.wantConfigMap("second", "2")
		b.wantRecords(run.desired, "2 deployed", "1 superseded")
		// Without the record, the previous revision is the newest.
		if err := b.kube.CoreV1().Secrets(b.namespace).Delete(t.Context(), records.NameOf("demo", 2),
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := run.settleUninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wantNoConfigMap("first")
		b.wantConfigMap("second", "2")
		b.wantRecords(run.desired)
	})
	t.Run("before another", func(t *testing.T) {
		b := newBench(t)
		run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
		run.mustSettle(t)
		run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
		run.mustSettle(t)
		b.spoilRecord(1, garble)
		// The status label does not match the record, so all records are read.
		b.spoilRecord(2, func(secret *corev1.Secret) { secret.Labels[model.HelmLabelStatus] = "superseded" })
		b.newProcess(run)
		if err := run.settleUninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wantNoConfigMap("first")
		b.wantRecords(run.desired)
	})
}
