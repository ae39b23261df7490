/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
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
	for name, pair := range map[string][2]string{
		"chart": {`[]`, live}, "no spec": {`{"metadata":{}}`, live}, "answer": {`{"spec":{}}`, `oops`}, "answer without metadata": {`{"spec":{}}`, `{}`},
		"odd webhook": {`{"spec":{"conversion":{"webhook":[]}}}`, `{"metadata":{"labels":[]}}`},
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

func crdFolderOf(t *testing.T, chrt *chart.Chart, values map[string]any) ([]*crdFolderObject, error) {
	t.Helper()
	files, err := rendering.NewRenderer(testRunner).CRDs(t.Context(), rendering.Source{Chart: chrt, Values: values})
	if err != nil {
		return nil, err
	}
	return crdFolder(files)
}

func TestCRDFolder(t *testing.T) {
	t.Parallel()
	withCRD := func(name, group string) *chart.Chart {
		chrt := chartWithCRDs("1.0.0", nil, map[string]string{"crd.yaml": crdOf(group, "v1", "v2")})
		chrt.Metadata.Name = name
		return chrt
	}
	parent := func() *chart.Chart {
		chrt := withCRD("parent", "parent.test")
		chrt.Metadata.Dependencies = []*chart.Dependency{
			{Name: "on", Version: "1.0.0", Condition: "on.enabled"}, {Name: "off", Version: "1.0.0", Condition: "off.enabled"},
		}
		chrt.AddDependency(withCRD("on", "on.test"), withCRD("off", "off.test"))
		return chrt
	}
	chrt := parent()
	for _, test := range []struct {
		values map[string]any
		want   string
	}{
		{nil, "widgets.parent.test widgets.on.test widgets.off.test"},
		{map[string]any{"off": map[string]any{"enabled": false}}, "widgets.parent.test widgets.on.test"},
		{map[string]any{"off": map[string]any{"enabled": false}, "on": map[string]any{"enabled": false}}, "widgets.parent.test"},
	} {
		objects, err := crdFolderOf(t, chrt, test.values)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, object := range objects {
			names = append(names, object.name)
			if !object.isCRD() || len(object.serves) != 2 || object.serves[1].Version != "v2" || object.serves[1].Kind != "Widget" {
				t.Errorf("%+v", object)
			}
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("with %v: %s, want %s", test.values, got, test.want)
		}
	}
	if len(chrt.Dependencies()) != 2 || len(chrt.Metadata.Dependencies) != 2 {
		t.Error("the chart was changed")
	}
	if objects, err := crdFolderOf(t, newChart("1.0.0", twoConfigMaps()), nil); err != nil || objects != nil {
		t.Errorf("a chart without CRDs: %v, %v", objects, err)
	}
}

func TestCRDFolderErrors(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"YAML": "a: b: c", "a list": "- a", "no name": "apiVersion: v1\nkind: ConfigMap\n", "no kind": "apiVersion: v1\nmetadata: {name: a}\n",
		"odd version": "apiVersion: a/b/c\nkind: A\nmetadata: {name: a}\n", "odd spec": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: []\n",
		"no spec": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n",
	} {
		chrt := chartWithCRDs("1.0.0", nil, map[string]string{"odd.yaml": content})
		if _, err := crdFolderOf(t, chrt, nil); !errors.Is(classify(err), ErrInvalidChart) || !strings.Contains(err.Error(), "crds/odd.yaml: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCRDCacheIsBounded(t *testing.T) {
	t.Parallel()
	cache := newCRDCache()
	large := strings.Repeat("x", 5<<20)
	for i := range 10 {
		object := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {key: %s}\n", i, large)
		if _, err := cache.of(&chart.File{Name: "crds/large.yaml", Data: []byte(object)}); err != nil {
			t.Fatal(err)
		}
	}
	if cache.bytes > maxParsedCRDBytes || cache.files.Len() != 6 {
		t.Errorf("%d files of %d bytes are kept", cache.files.Len(), cache.bytes)
	}
}

// TestRecordSizes holds which charts fit into one Secret, by what they are like: Helm compresses the base64 of files, so that the
// texts of a chart shrink to a fifth to two fifths in its Secret, not to a tenth as they do in its archive.
func TestRecordSizes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		chart *chart.Chart
		fits  bool
	}{
		"CRDs of 700 KiB":                 {bigCRDChart(20, 0), true},
		"CRDs of 2 MiB and 30 dashboards": {bigCRDChart(60, 30), false},
	} {
		payload, err := newRecordCodec().encode(recordOf(test.chart))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB of files are %d KiB in Helm's Secret", name, chartBytes(test.chart)>>10, len(payload)>>10)
		if got := len(payload) <= maxRecordSize; got != test.fits {
			t.Errorf("%s: %d bytes fit: %t", name, len(payload), got)
		}
	}
}

// recordOf returns a release of a chart whose manifest holds the dashboards of the chart, as that of a monitoring stack does.
func recordOf(chrt *chart.Chart) *release.Release {
	var manifest strings.Builder
	for _, file := range chrt.Files {
		if strings.HasPrefix(file.Name, "dashboards/") {
			fmt.Fprintf(&manifest, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  dashboard.json: |\n    %s\n", file.Name, file.Data)
		}
	}
	return &release.Release{Name: "big", Namespace: "apps", Version: 1, Info: &release.Info{}, Chart: chrt, Manifest: manifest.String()}
}

// bigCRDChart returns a chart with CRDs of some 35 KiB each and dashboards of some 40 KiB each. Their texts repeat
// themselves as schemas and dashboards do: few words, many times, and numbers.
func bigCRDChart(crds, dashboards int) *chart.Chart {
	random := rand.New(rand.NewSource(1))
	word := func() string {
		const syllables = "ba be bi bo ca ce co da de di do fa fe ga go la le lo ma me mi mo na ne ni no pa pe po ra re ri ro sa se si so ta te ti to"
		parts := strings.Fields(syllables)
		text := ""
		for range 2 + random.Intn(2) {
			text += parts[random.Intn(len(parts))]
		}
		return text
	}
	vocabulary := make([]string, 600)
	for i := range vocabulary {
		vocabulary[i] = word()
	}
	sentence := func(words int) string {
		chosen := make([]string, words)
		for i := range chosen {
			chosen[i] = vocabulary[random.Intn(1+random.Intn(len(vocabulary)))]
		}
		return strings.Join(chosen, " ")
	}
	chrt := newChart("1.0.0", nil)
	for i := range crds {
		text := crdOf(fmt.Sprintf("size%d.test", i), "v1")
		for len(text) < 35<<10 {
			text += "                " + sentence(1) + ":\n                  description: " + sentence(25) + "\n                  type: string\n"
		}
		chrt.Files = append(chrt.Files, &chart.File{Name: fmt.Sprintf("crds/%d.yaml", i), Data: []byte(text)})
	}
	for i := range dashboards {
		text := `{"panels":[`
		for len(text) < 40<<10 {
			text += fmt.Sprintf(`{"id":%d,"gridPos":{"h":8,"w":12,"x":%d,"y":%d},"datasource":"$datasource","targets":[{"expr":"sum(rate(%s{job=\"%s\"}[5m])) by (%s)"}],"title":"%s"},`,
				random.Intn(1000), random.Intn(24), random.Intn(100), sentence(1), sentence(1), sentence(1), sentence(4))
		}
		chrt.Files = append(chrt.Files, &chart.File{Name: fmt.Sprintf("dashboards/%d.json", i), Data: []byte(text)})
	}
	return chrt
}

// TestCRDThatIsAndIsNot holds that a cluster which says that a CRD is not there, and will not have it because it is, is not
// asked for ever.
func TestCRDThatIsAndIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resource := schema.GroupResource{Group: crdGroup, Resource: "customresourcedefinitions"}
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
			applier := &crdApplier{
				crdTarget: crdTarget{cluster: &kubeClient{progress: func(string) {}}},
				ctx:       ctx,
				client:    &fake.RESTClient{NegotiatedSerializer: scheme.Codecs.WithoutConversion(), Client: fake.CreateHTTPClient(answer)},
				preflight: func() error { return nil },
			}
			return applier.replace(&crdFolderObject{name: "widgets.example.com", file: "crds/crd.yaml", data: []byte("{}")})
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
