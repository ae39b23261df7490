// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// hookedRelease returns a release with two hooks; the second hook has run.
func hookedRelease() *release.Release {
	rls := helmtest.FullRelease()
	rls.Manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	rls.Hooks = []*release.Hook{
		{Name: "first", Manifest: "kind: Job\n"},
		{Name: "second", Manifest: "kind: Pod\n",
			LastRun: release.HookExecution{StartedAt: helmtime.Unix(7, 0), Phase: release.HookPhaseSucceeded}},
	}
	rls.Info.Notes = "notes"
	return rls
}

// testPayloadID is the ID of a payload.
var testPayloadID = strings.Repeat("0a", payloadIDSize)

func clusterPointer(revision int) pointer {
	return pointer{Version: pointerVersion, ID: testPayloadID, Revision: revision, Size: 7,
		Digest: digestOf([]byte("payload")), Chunks: 1}
}

// TestPointerRestoresRecord checks that a pointer and its payload yield the original record, with the changes since the
// payload was put.
func TestPointerRestoresRecord(t *testing.T) {
	t.Parallel()
	codec := recordcodec.New()
	made := hookedRelease()
	made.Hooks[1].LastRun = release.HookExecution{}
	packed, err := (&Store{codec: codec}).Pack(made)
	if err != nil {
		t.Fatal(err)
	}
	changed := hookedRelease()
	changed.Info.Status, changed.Info.Description = release.StatusFailed, "failed"
	small, err := pointerRecord(changed, clusterPointer(changed.Version))
	if err != nil {
		t.Fatal(err)
	}
	text, err := recordcodec.EncodeSmall(small)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"kind: Job", "kind: ConfigMap"} {
		if strings.Contains(small.Manifest, secret) {
			t.Errorf("the pointer holds %q", secret)
		}
	}
	if small.Config != nil || len(text) > 16<<10 {
		t.Errorf("the pointer has %d bytes, and values: %t", len(text), small.Config != nil)
	}
	read, err := codec.Decode(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := pointerOf(read)
	if err != nil || to == nil {
		t.Fatalf("%+v, %v", to, err)
	}
	content, err := codec.Unpack(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := to.whole(read, content)
	want, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("read\n%s\nwritten\n%s", got, want)
	}
	if !content.Hooks[1].LastRun.StartedAt.IsZero() {
		t.Error("a hook of the payload was changed")
	}
	if contentOf(whole) != contentOf(made) || contentOf(whole) != contentOf(changed) {
		t.Error("the digest of the content changed")
	}
}

// TestPointerOmitsLongNotes checks that long notes are only in the payload, and are restored from it.
func TestPointerOmitsLongNotes(t *testing.T) {
	t.Parallel()
	rls := hookedRelease()
	rls.Info.Notes = strings.Repeat("x", maxPointerNotes+1)
	small, err := pointerRecord(rls, clusterPointer(1))
	if err != nil || small.Info.Notes != "" {
		t.Fatalf("%d bytes of notes, %v", len(small.Info.Notes), err)
	}
	if whole := (&pointer{}).whole(small, rls); whole.Info.Notes != rls.Info.Notes {
		t.Error("the notes are lost")
	}
}

// TestPointerDamaged checks that a damaged pointer is an error, and does not count as a release without objects.
func TestPointerDamaged(t *testing.T) {
	t.Parallel()
	place := func(size int64) *payload.Place { return &payload.Place{URL: "oci://r/a", Size: size} }
	full := model.MaxClusterPayload / chunkSize
	tests := map[string]struct {
		change func(*pointer)
		file   func(*chart.File)
		good   bool
	}{
		"as written":     {change: func(*pointer) {}, good: true},
		"in a store":     {change: func(p *pointer) { p.Chunks, p.Place = 0, place(7+sealOverhead) }, good: true},
		"full parts":     {change: func(p *pointer) { p.Chunks, p.Size = full, full*chunkSize }, good: true},
		"the largest":    {change: func(p *pointer) { p.Chunks, p.Size = full+1, model.MaxClusterPayload }, good: true},
		"newer":          {change: func(p *pointer) { p.Version++ }},
		"no ID":          {change: func(p *pointer) { p.ID = "" }},
		"odd ID":         {change: func(p *pointer) { p.ID = strings.Repeat("../", 11) }},
		"no revision":    {change: func(p *pointer) { p.Revision = 0 }},
		"huge":           {change: func(p *pointer) { p.Size = 1 << 40 }},
		"too large":      {change: func(p *pointer) { p.Chunks, p.Size = full+1, model.MaxClusterPayload+1 }},
		"negative":       {change: func(p *pointer) { p.Size = -1 }},
		"empty":          {change: func(p *pointer) { p.Chunks, p.Size = 0, 0 }},
		"nowhere":        {change: func(p *pointer) { p.Chunks = 0 }},
		"both":           {change: func(p *pointer) { p.Place = place(7 + sealOverhead) }},
		"too many parts": {change: func(p *pointer) { p.Chunks = 2 }},
		"too few parts":  {change: func(p *pointer) { p.Size = chunkSize + 1 }},
		"negative parts": {change: func(p *pointer) { p.Chunks = -1 }},
		"not sealed":     {change: func(p *pointer) { p.Chunks, p.Place = 0, place(7) }},
		"large in store": {change: func(p *pointer) { p.Chunks, p.Place = 0, place(1<<40) }},
		"huge in store": {change: func(p *pointer) {
			p.Chunks, p.Size, p.Place = 0, model.MaxStoredPayload+1, place(model.MaxStoredPayload+1+sealOverhead)
		}},
		"not JSON":                 {file: func(f *chart.File) { f.Data = []byte("{key: planted") }},
		"another file":             {file: func(f *chart.File) { f.Name = "README.md" }},
		"endless":                  {file: func(f *chart.File) { f.Data = bytes.Repeat([]byte(" "), maxPointerFile+1) }},
		"other types":              {file: func(f *chart.File) { f.Data = []byte(`{"version":"1"}`) }},
		"hooks of unknown indexes": {change: func(p *pointer) { p.Hooks = []hookRun{{Index: -1}, {Index: 99}} }, good: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rls := hookedRelease()
			to := clusterPointer(1)
			if test.change != nil {
				test.change(&to)
			}
			small, err := pointerRecord(rls, to)
			if err != nil {
				t.Fatal(err)
			}
			if test.file != nil {
				test.file(small.Chart.Files[0])
			}
			read, err := pointerOf(small)
			if test.good {
				if err != nil || read == nil {
					t.Fatalf("%+v, %v", read, err)
				}
				read.whole(small, rls)
				return
			}
			if !errors.Is(err, helmerr.ErrRecordDamaged) || strings.Contains(err.Error(), "planted") {
				t.Errorf("%+v, %v", read, err)
			}
		})
	}
	if to, err := pointerOf(hookedRelease()); to != nil || err != nil {
		t.Errorf("a whole record: %+v, %v", to, err)
	}
	if to, err := pointerOf(&release.Release{Info: &release.Info{}}); to != nil || err != nil {
		t.Errorf("an empty record: %+v, %v", to, err)
	}
}

// TestHostilePointerTakesLittleMemory checks that the number of values in a pointer is bounded, not only its size,
// because workload clusters are not trusted.
func TestHostilePointerTakesLittleMemory(t *testing.T) { //nolint:paralleltest // It measures memory.
	hooks := strings.TrimSuffix(strings.Repeat("{},", (maxPointerFile-20)/3), ",")
	small := &release.Release{Manifest: "a\nkind: " + PointerKind + "\n",
		Chart: &chart.Chart{Files: []*chart.File{{Name: pointerFile, Data: []byte(`{"hooks":[` + hooks + `]}`)}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := pointerOf(small)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 || !errors.Is(err, helmerr.ErrRecordDamaged) {
		t.Errorf("a pointer takes %d MiB: %v", taken>>20, err)
	}
}

// TestSeal checks that sealed data does not reveal its content, and can only be decrypted unchanged and with its own
// key.
func TestSeal(t *testing.T) {
	t.Parallel()
	plain := []byte(strings.Repeat("a secret ", 100))
	sealed, key, err := seal(plain)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, plain[:8]) || len(sealed) != len(plain)+sealOverhead {
		t.Errorf("the sealed data can be read, or has %d bytes for %d", len(sealed), len(plain))
	}
	if back, err := unseal(sealed, key); err != nil || !bytes.Equal(back, plain) {
		t.Errorf("%q, %v", back, err)
	}
	again, other, err := seal(plain)
	if err != nil || bytes.Equal(again, sealed) || bytes.Equal(other, key) {
		t.Errorf("sealed twice, it is the same; %v", err)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)/2] ^= 1
	for name, test := range map[string]struct{ sealed, key []byte }{
		"another key": {sealed, other}, "no key": {sealed, nil}, "short key": {sealed, key[:16]}, "changed": {changed, key},
		"cut": {sealed[:len(sealed)-1], key}, "empty": {nil, key},
	} {
		if _, err := unseal(test.sealed, test.key); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestUseOfParts checks which parts count as left behind by a crash.
func TestUseOfParts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	record := func(revision int, id string) metav1.PartialObjectMetadata {
		labels := map[string]string{model.HelmLabelVersion: fmt.Sprint(revision)}
		model.SetText(labels, model.LabelPayload, id)
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	records := func(list ...metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata { return list }
	for name, test := range map[string]struct {
		records []metav1.PartialObjectMetadata
		age     time.Duration
		own     bool
		want    partUse
	}{
		"pointed to":                   {records(record(1, "other"), record(2, "own")), time.Hour, false, partNamed},
		"pointed to by a copy":         {records(record(3, "own")), time.Hour, true, partNamed},
		"of a record that lost it":     {records(record(2, "")), time.Hour, false, partNamed},
		"replaced":                     {records(record(2, "other")), time.Hour, false, partUnused},
		"replaced a moment ago":        {records(record(2, "other")), time.Minute, false, partYoung},
		"of no record":                 {records(record(1, "other")), time.Hour, false, partUnused},
		"of no record, young":          {records(record(1, "other")), time.Minute, false, partYoung},
		"of a record that was deleted": {records(record(1, "other")), time.Minute, true, partUnused},
		"of a release that ended":      {nil, time.Hour, false, partUnused},
		"of one that ended, deleted":   {nil, time.Second, true, partUnused},
		"of one that is to begin":      {nil, time.Second, false, partYoung},
	} {
		part := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels:            map[string]string{model.LabelPayload: "own", labelChunkRevision: "2"},
			CreationTimestamp: metav1.NewTime(now.Add(-test.age)),
		}}
		if got := useOf(part, test.records, test.own, now); got != test.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
