// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
)

func TestMergeCRD(t *testing.T) {
	t.Parallel()
	const live = `{"metadata":{"name":"w","resourceVersion":"7","uid":"u","labels":{"theirs":"1","both":"live"},"finalizers":["f"],"managedFields":[{"manager":"m"}]},
		"spec":{"group":"old","conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"Q0E=","service":{"name":"s"}}}}},"status":{"storedVersions":["v1"]}}`
	const webhook = `"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{%s"service":{"name":"t"}}}}`
	tests := map[string]struct{ chart, want string }{
		"conversion of others stays": {
			`{"metadata":{"name":"w","labels":{"both":"chart"}},"spec":{"group":"new"},"status":{"x":1}}`,
			`{"metadata":{"name":"w","resourceVersion":"7","uid":"u","labels":{"theirs":"1","both":"chart"},"finalizers":["f"]},
			"spec":{"group":"new","conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"Q0E=","service":{"name":"s"}}}}}}`,
		},
		"conversion of the chart counts": {
			`{"metadata":{"name":"w","annotations":{"a":"1"}},"spec":{"conversion":{"strategy":"None"}}}`,
			`{"metadata":{"name":"w","resourceVersion":"7","uid":"u","labels":{"theirs":"1","both":"live"},"annotations":{"a":"1"},"finalizers":["f"]},"spec":{"conversion":{"strategy":"None"}}}`,
		},
		"authority of others stays": {
			`{"metadata":{"name":"w"},"spec":{` + fmt.Sprintf(webhook, "") + `}}`,
			`{"metadata":{"name":"w","resourceVersion":"7","uid":"u","labels":{"theirs":"1","both":"live"},"finalizers":["f"]},"spec":{` + fmt.Sprintf(webhook, `"caBundle":"Q0E=",`) + `}}`,
		},
		"authority of the chart counts": {
			`{"metadata":{"name":"w"},"spec":{` + fmt.Sprintf(webhook, `"caBundle":"T1VS",`) + `}}`,
			`{"metadata":{"name":"w","resourceVersion":"7","uid":"u","labels":{"theirs":"1","both":"live"},"finalizers":["f"]},"spec":{` + fmt.Sprintf(webhook, `"caBundle":"T1VS",`) + `}}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := mergeCRD([]byte(test.chart), []byte(live))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := canonical(t, got), canonical(t, []byte(test.want)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	const own = `{"metadata":{"managedFields":[{"manager":"helmop","fieldsV1":{"f:spec":{"f:conversion":{"f:strategy":{}}}}}]},
		"spec":{"conversion":{"strategy":"Webhook"}}}`
	if got, err := mergeCRD([]byte(`{"spec":{"group":"new"}}`), []byte(own)); err != nil ||
		string(got) != `{"metadata":{},"spec":{"group":"new"}}` {
		t.Errorf("the former conversion of the chart: %s, %v", got, err)
	}
	for name, pair := range map[string][2]string{
		"chart": {`[]`, live}, "no spec": {`{"metadata":{}}`, live}, "answer": {`{"spec":{}}`, `oops`},
		"answer without metadata": {`{"spec":{}}`, `{}`},
		"odd webhook":             {`{"spec":{"conversion":{"webhook":[]}}}`, `{"metadata":{"labels":[]}}`},
	} {
		if got, err := mergeCRD([]byte(pair[0]), []byte(pair[1])); err == nil && name != "odd webhook" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func canonical(t *testing.T, data []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCRDCacheIsBounded(t *testing.T) {
	t.Parallel()
	cache := NewCache(MaxCacheBytes)
	large := strings.Repeat("x", 5<<20)
	for i := range 10 {
		object := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {key: %s}\n", i, large)
		file := &chart.File{Name: "crds/large.yaml", Data: []byte(object)}
		if _, err := cache.of(nil, file, &manifestweight.Budget{}); err != nil {
			t.Fatal(err)
		}
	}
	if files, bytes := cache.files.Stats(); bytes > MaxCacheBytes || files != 6 {
		t.Errorf("%d files of %d bytes are kept", files, bytes)
	}
}

// TestCRDCacheCountsFilesWithoutObjects checks that a chart with many files without objects does not fill the memory.
func TestCRDCacheCountsFilesWithoutObjects(t *testing.T) {
	t.Parallel()
	cache := NewCache(64 << 10)
	for i := range 1000 {
		file := &chart.File{Name: fmt.Sprintf("crds/%d.yaml", i), Data: []byte("# nothing\n")}
		if _, err := cache.of(nil, file, &manifestweight.Budget{}); err != nil {
			t.Fatal(err)
		}
	}
	if files, bytes := cache.files.Stats(); files > 256 || bytes > 64<<10 {
		t.Errorf("%d files of %d bytes are kept", files, bytes)
	}
}

// TestReplaceCRDEndsAfterContradictoryResponses checks that the attempts end if the cluster reports both that a CRD
// does not exist and that it exists.
func TestReplaceCRDEndsAfterContradictoryResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resource := schema.GroupResource{Group: group, Resource: "customresourcedefinitions"}
		writes := 0
		answer := func(req *http.Request) (*http.Response, error) {
			status := apierrors.NewNotFound(resource, "widgets.example.com").Status()
			if req.Method == http.MethodPost {
				writes++
				status = apierrors.NewAlreadyExists(resource, "widgets.example.com").Status()
			}
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			body, err := json.Marshal(status)
			return &http.Response{StatusCode: int(status.Code), Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(string(body)))}, err
		}
		apply := func(ctx context.Context) error {
			applier := &applier{
				Target: Target{Cluster: &apply.Client{Progress: func(string) {}}},
				ctx:    ctx,
				client: &fake.RESTClient{NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
					Client: fake.CreateHTTPClient(answer)},
				preflight: func() error { return nil },
			}
			return applier.replace(&Object{Name: "widgets.example.com", file: "crds/crd.yaml", data: []byte("{}")})
		}
		begun := time.Now()
		if err := apply(t.Context()); err == nil || writes != maxCRDTries {
			t.Errorf("after %d writes: %v", writes, err)
		}
		if time.Since(begun) < crdPause {
			t.Error("it did not pause")
		}
		ctx, cancel := context.WithTimeout(t.Context(), crdPause/2)
		defer cancel()
		if err := apply(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a deadline: %v", err)
		}
	})
}

// TestHostileCRDs checks that files are refused before they are parsed if they take too much memory, alone or together,
// also if each file was parsed before.
func TestHostileCRDs(t *testing.T) {
	t.Parallel()
	files := func(texts ...string) (files []chart.CRD) {
		for i, text := range texts {
			name := fmt.Sprintf("crds/%d.yaml", i)
			files = append(files, chart.CRD{Filename: "demo/" + name, File: &chart.File{Name: name, Data: []byte(text)}})
		}
		return files
	}
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	aliases := object + "a: &a " + strings.Repeat("x", 1<<17) + "\nl: [" + strings.Repeat("*a,", 20_000) + "*a]\n"
	many := object + "data:\n" + strings.Repeat("- {a: 0}\n", manifestweight.MaxValues/7)
	parsed := NewCache(MaxCacheBytes)
	for name, tc := range map[string]struct {
		files []chart.CRD
		fails string
	}{
		"a few values":           {files(many), ""},
		"aliases":                {files(object, aliases), "demo/crds/1.yaml: the manifests have more than"},
		"many values together":   {files(many, many, many), "demo/crds/2.yaml: the manifests have more than"},
		"the same values again":  {files(many, many, many), "demo/crds/2.yaml: the manifests have more than"},
		"UTF-16":                 {files("\xff\xfea\x00:\x00 \x00b\x00"), "demo/crds/0.yaml: it is not UTF-8 text"},
		"a directive for a type": {files("%TAG ! tag:x,\r---\r" + object), "demo/crds/0.yaml: it has a %TAG directive"},
	} {
		_, err := parsed.Read(nil, tc.files)
		if _, again := (*Cache)(nil).Read(nil, tc.files); (again == nil) != (err == nil) {
			t.Errorf("%s, without a cache: %v", name, again)
		}
		if tc.fails == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tc.fails != "" && (!errors.Is(err, helmerr.ErrInvalidChart) || !strings.HasPrefix(err.Error(), tc.fails)) {
			t.Errorf("%s: %v, want %s", name, err, tc.fails)
		}
	}
}
