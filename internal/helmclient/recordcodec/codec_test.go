// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordcodec

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// dataKey is the key of a record in Helm's Secrets.
const dataKey = "release"

// pack packs a record. It reserves no memory.
func (c *Codec) pack(rls *release.Release) ([]byte, error) {
	var piece *Piece
	if rls.Chart != nil {
		var err error
		if piece, err = c.Piece(rls.Chart, func() error { return nil }); err != nil {
			return nil, err
		}
	}
	return c.Pack(piece, rls, nil)
}

// encode returns a record in the format of Helm's Secrets.
func (c *Codec) encode(rls *release.Release) ([]byte, error) {
	packed, err := c.pack(rls)
	if err != nil {
		return nil, err
	}
	return EncodeBase64(packed), nil
}

// sparseReleases are releases without some fields.
func sparseReleases() map[string]*release.Release {
	noChart := helmtest.FullRelease()
	noChart.Chart = nil
	empty := helmtest.FullRelease()
	empty.Chart = &chart.Chart{}
	bare := &release.Release{Info: &release.Info{Status: release.StatusFailed},
		Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "a"}}}
	return map[string]*release.Release{"full": helmtest.FullRelease(), "no chart": noChart, "empty chart": empty,
		"bare": bare}
}

func wantSameJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s: got %s, want %s", what, a, b)
	}
}

// TestCodecHandlesAllFields fails if another version of the Helm SDK stores more fields: chartRest, keyOf and packChart
// must handle them.
func TestCodecHandlesAllFields(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"templates": true, "files": true, "schema": true}
	rest := reflect.TypeFor[chartRest]()
	for i := range rest.NumField() {
		known[rest.Field(i).Tag.Get("json")] = true
	}
	stored := reflect.TypeFor[chart.Chart]()
	for i := range stored.NumField() {
		field := stored.Field(i)
		if name := field.Tag.Get("json"); field.IsExported() && name != "-" && !known[name] {
			t.Errorf("field %s of a chart is not stored", field.Name)
		}
	}
}

// TestCodecIsCompatibleWithHelm checks that Helm's own driver reads records of the codec, and the codec reads records
// of Helm's driver.
func TestCodecIsCompatibleWithHelm(t *testing.T) {
	t.Parallel()
	for name, rls := range sparseReleases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			codec := New()
			payload, err := codec.encode(rls)
			if err != nil {
				t.Fatal(err)
			}
			clients := fake.NewClientset(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: "apps"}, Data: map[string][]byte{dataKey: payload},
			})
			helm := driver.NewSecrets(clients.CoreV1().Secrets("apps"))
			read, err := helm.Get("ours")
			if err != nil {
				t.Fatal(err)
			}
			wantSameJSON(t, "Helm reads", read, rls)
			if err := helm.Create("theirs", rls); err != nil {
				t.Fatal(err)
			}
			theirs, err := clients.CoreV1().Secrets("apps").Get(t.Context(), "theirs", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for who, data := range map[string][]byte{"Helm's": theirs.Data[dataKey], "ours": payload} {
				for state, reader := range map[string]*Codec{"warm": codec, "cold": New()} {
					read, err := reader.Decode(data, nil)
					if err != nil {
						t.Fatal(who, state, err)
					}
					wantSameJSON(t, who+" read "+state, read, rls)
				}
			}
		})
	}
}

// TestCodecDistinguishesCharts checks that no chart gets the files of another chart.
func TestCodecDistinguishesCharts(t *testing.T) {
	t.Parallel()
	codec := New()
	file := func(name, data string) []*chart.File { return []*chart.File{{Name: name, Data: []byte(data)}} }
	charts := []chart.Chart{
		{}, {Templates: []*chart.File{}}, {Schema: []byte{}}, {Templates: file("a", "b")}, {Files: file("a", "b")},
		{Templates: file("ab", "")},
		{Templates: []*chart.File{{Name: "ab"}}}, {Templates: []*chart.File{nil}}, {Templates: file("", "ab")},
		{Schema: []byte("ab")},
		{Templates: append(file("a", "b"), file("c", "d")...)}, {Templates: file("a", "b"), Files: file("c", "d")},
	}
	seen := map[chartKey]int{}
	for i := range charts {
		rls := helmtest.FullRelease()
		charts[i].Metadata = rls.Chart.Metadata
		rls.Chart = &charts[i]
		payload, err := codec.encode(rls)
		if err != nil {
			t.Fatal(err)
		}
		read, err := codec.Decode(payload, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantSameJSON(t, fmt.Sprintf("chart %d", i), read, rls)
		if other, ok := seen[keyOf(&charts[i])]; ok {
			t.Errorf("charts %d and %d have the same key", other, i)
		}
		seen[keyOf(&charts[i])] = i
	}
}

func TestCodecIsBounded(t *testing.T) {
	t.Parallel()
	codec := New()
	for i := range 12 {
		rls := helmtest.FullRelease()
		rls.Chart.Files = []*chart.File{{Name: fmt.Sprint(i), Data: bytes.Repeat([]byte{byte(i)}, 8<<20)}}
		if _, err := codec.encode(rls); err != nil {
			t.Fatal(err)
		}
	}
	rls := helmtest.FullRelease()
	rls.Chart.Files = []*chart.File{{Name: "large", Data: make([]byte, MaxPieceBytes/4)}}
	if _, err := codec.encode(rls); err != nil {
		t.Fatal(err)
	}
	if n, bytes := codec.pieces.Stats(); bytes > MaxPieceBytes || n == 0 || n >= 12 {
		t.Errorf("%d charts of %d bytes are kept", n, bytes)
	}
}

func TestCodecUnreadable(t *testing.T) {
	t.Parallel()
	codec := New()
	payload, err := codec.encode(helmtest.FullRelease())
	if err != nil {
		t.Fatal(err)
	}
	packed, err := base64.StdEncoding.AppendDecode(nil, payload)
	if err != nil {
		t.Fatal(err)
	}
	base64Of := func(data []byte) []byte { return base64.StdEncoding.AppendEncode(nil, data) }
	codec.limit = 1 << 20
	pack := func(text string) []byte {
		var packed bytes.Buffer
		packer := gzip.NewWriter(&packed)
		if _, err := packer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := packer.Close(); err != nil {
			t.Fatal(err)
		}
		return base64Of(packed.Bytes())
	}
	// Only the limit of the size prevents that the bomb is decoded.
	bomb := pack(`{"info":{},"manifest":"` + strings.Repeat("0", codec.limit) + `"}`)
	if _, err := codec.Decode(pack(`{"info":{},"manifest":"`+strings.Repeat("0", codec.limit/2)+`"}`), nil); err != nil {
		t.Errorf("half of it: %v", err)
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "no base64": []byte("***"), "no JSON": base64Of([]byte("secret value")),
		"no info": base64Of([]byte("{}")),
		"cut off": base64Of(packed[:len(packed)-10]), "without the rest": base64Of(packed[:len(packed)/3]), "bomb": bomb,
	} {
		if rls, err := codec.Decode(data, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", name, rls, err)
		}
	}
	// A record without a chart can be decoded.
	if rls, err := codec.Decode(base64Of([]byte(`{"info":{}}`)), nil); err != nil || rls.Chart != nil {
		t.Errorf("%+v, %v", rls, err)
	}
}

func FuzzCodecDecode(f *testing.F) {
	codec := New()
	payload, err := codec.encode(helmtest.FullRelease())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte("e30="))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if rls, err := codec.Decode(data, nil); err == nil {
			_, _ = codec.encode(rls)
		}
	})
}

// benchRelease returns a release of a chart of the given number of bytes.
func benchRelease(b *testing.B, size int) *release.Release {
	b.Helper()
	rls := helmtest.FullRelease()
	var text bytes.Buffer
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "line %d of a file: %x\n", i, i*i*7919)
	}
	rls.Chart.Files = []*chart.File{{Name: "dashboards.json", Data: text.Bytes()}}
	rls.Manifest = strings.Repeat("---\nkind: ConfigMap\nmetadata:\n  name: a\n", 200)
	return rls
}

func BenchmarkEncode(b *testing.B) {
	rls := benchRelease(b, 800<<10)
	b.Run("helm", func(b *testing.B) {
		store := driver.NewSecrets(fake.NewClientset().CoreV1().Secrets("apps"))
		if err := store.Create("record", rls); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := store.Update("record", rls); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("codec", func(b *testing.B) {
		codec := New()
		// The first encoding packs the chart.
		if _, err := codec.encode(rls); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := codec.encode(rls); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	codec := New()
	payload, err := codec.encode(benchRelease(b, 800<<10))
	if err != nil {
		b.Fatal(err)
	}
	for name, reader := range map[string]*Codec{"unknown chart": New(), "known chart": codec} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := reader.Decode(payload, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestDecodeWaitsForMemory checks that decoding reserves memory while it unpacks a record, and that a record without
// free memory does not count as damaged.
func TestDecodeWaitsForMemory(t *testing.T) {
	t.Parallel()
	codec := New()
	errFull := errors.New("full")
	for name, tc := range map[string]struct {
		size, room int
		want       error
	}{
		"a small one":                  {size: 1000},
		"a large one":                  {size: 10 << 20, room: 64 << 20},
		"a large one without the room": {size: 10 << 20, room: 8 << 20, want: errFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := codec.encode(&release.Release{Name: "demo", Info: &release.Info{},
				Manifest: strings.Repeat("0", tc.size)})
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			rls, err := codec.Decode(data, func(size int) error {
				asked = size
				if size > tc.room {
					return errFull
				}
				return nil
			})
			if !errors.Is(err, tc.want) || (err == nil) != (rls != nil) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if asked > max(4*tc.size, 2*tc.room) || tc.room > 0 && asked < min(tc.size, tc.room) {
				t.Errorf("room for %d is asked for", asked)
			}
		})
	}
}
