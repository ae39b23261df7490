// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget_test

import (
	"bytes"
	"encoding/base64"
	binary64 "encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

const (
	asJSON   = bytebudget.JSON
	asBinary = bytebudget.Protobuf
)

// cost returns the estimate of a meter for an answer that arrives in pieces.
func cost(form bytebudget.Form, data []byte, piece int) int64 {
	m := bytebudget.NewMeter(form)
	for len(data) > 0 {
		n := min(piece, len(data))
		m.Add(data[:n])
		data = data[n:]
	}
	return m.Cost(0)
}

// taken returns the memory that an answer needs together with its decoded form.
func taken(data []byte, decode func([]byte) any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	decoded := decode(data)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(decoded)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc) + int64(len(data))
}

func untyped(data []byte) any {
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

func typed(data []byte) any {
	out, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		panic(err)
	}
	return out
}

func repeated(open, value, end string, size int) []byte {
	return []byte(open + strings.TrimSuffix(strings.Repeat(value+",", size/(len(value)+1)), ",") + end)
}

// binary encodes an object in the binary form of Kubernetes.
func binary(t *testing.T, obj kruntime.Object) []byte {
	t.Helper()
	info, _ := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), kruntime.ContentTypeProtobuf)
	var out bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// message is a field of a message, given its tag.
func message(tag byte, data []byte) []byte {
	return append(binary64.AppendUvarint([]byte{tag}, uint64(len(data))), data...)
}

// enveloped returns a list of Secrets in its envelope.
func enveloped(list []byte) []byte {
	kind := append(message(0x0a, []byte("v1")), message(0x12, []byte("SecretList"))...)
	return append(append([]byte("k8s\x00"), message(0x0a, kind)...), message(0x12, list)...)
}

// labels returns entries of a map with short keys.
func labels(n int) []byte {
	var out []byte
	for i := range n {
		out = append(out, message(0x5a, message(0x0a, []byte{byte(i), byte(i >> 8 & 0x7f), byte(i >> 15)}))...)
	}
	return out
}

func records(n, size int) *corev1.SecretList {
	list := &corev1.SecretList{}
	for i := range n {
		text := make([]byte, size)
		random := rand.New(rand.NewPCG(uint64(i), 1))
		for j := range text {
			text[j] = byte(random.Uint32())
		}
		list.Items = append(list.Items, corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("sh.helm.release.v1.demo.v", i), Namespace: "demo",
				Labels: map[string]string{"owner": "helm", "name": "demo", "status": "superseded"}},
			Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(text))},
		})
	}
	return list
}

func metadata(n int) *corev1.SecretList {
	list := records(n, 0)
	for i := range list.Items {
		list.Items[i].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helmop", Operation: "Update", APIVersion: "v1",
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(`{"f:data":{".":{},"f:release":{}},"f:metadata":{"f:labels":{".":{}}}}`)}}
		list.Items[i].Annotations = map[string]string{"a": strings.Repeat("x", 200)}
	}
	return list
}

// TestMeter checks that decoded answers never need more memory than the estimate. For common answers of API servers,
// the estimate is not much larger than the memory.
func TestMeter(t *testing.T) {
	empty := func(n int) *corev1.SecretList { return &corev1.SecretList{Items: make([]corev1.Secret, n)} }
	crowd := &corev1.SecretList{Items: []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: make([]metav1.OwnerReference, 20_000), ManagedFields: make([]metav1.ManagedFieldsEntry, 20_000),
		Finalizers: make([]string, 20_000)}}}}
	asText := func(obj any) []byte {
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	withKind := records(4, 500_000)
	withKind.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}
	deployments, err := yaml.YAMLToJSON([]byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {a: b, c: d}},
spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: registry.example/a:v1,
args: [--one, --two], env: [{name: A, value: b}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], resources: {limits: {cpu: 1, memory: 1Gi}},
volumeMounts: [{name: a, mountPath: /a}]}], volumes: [{name: a, configMap: {name: a}}]}}}, status: {replicas: 2, conditions: [{type: Available, status: "True"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		form   bytebudget.Form
		data   []byte
		decode func([]byte) any
		// common is true if the estimate must not be much larger.
		common bool
	}{
		"JSON of empty objects": {asJSON, repeated(`{"items":[`, `{}`, `]}`, 1<<20), untyped, false},
		"JSON of small objects": {asJSON, repeated(`{"items":[`, `{"":0}`, `]}`, 1<<20), untyped, false},
		"JSON of nested objects": {asJSON,
			repeated(`{"items":[`, strings.Repeat(`{"":`, 50)+"0"+strings.Repeat("}", 50), `]}`, 1<<20),
			untyped, false},
		"JSON of numbers":     {asJSON, repeated(`{"items":[`, `0`, `]}`, 1<<20), untyped, false},
		"JSON of lists":       {asJSON, repeated(`{"items":[`, `[0]`, `]}`, 1<<20), untyped, false},
		"JSON of braces":      {asJSON, repeated(`{"items":[`, `"{{{{{{{\"{[,"`, `]}`, 1<<20), untyped, true},
		"JSON of Deployments": {asJSON, repeated(`{"items":[`, string(deployments), `]}`, 1<<20), untyped, true},
		"JSON of records":     {asJSON, asText(withKind), typed, true},
		"records":             {asBinary, binary(t, records(4, 500_000)), typed, true},
		"metadata":            {asBinary, binary(t, metadata(2000)), typed, false},
		"empty records":       {asBinary, binary(t, empty(25_000)), typed, false},
		"items of two bytes":  {asBinary, enveloped(bytes.Repeat([]byte{0x12, 0}, 50_000)), typed, false},
		"owners of two bytes": {asBinary, enveloped(message(0x12, message(0x0a, bytes.Repeat([]byte{0x6a, 0}, 50_000)))),
			typed, false},
		"labels of two bytes": {asBinary, enveloped(message(0x12, message(0x0a, labels(50_000)))), typed, false},
		"crowded metadata":    {asBinary, binary(t, crowd), typed, false},
		"text": {bytebudget.Text, bytes.Repeat([]byte("a line of a log\n"), 1<<16),
			func(b []byte) any { return string(b) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			estimated, needed := cost(tc.form, tc.data, len(tc.data)), taken(tc.data, tc.decode)
			t.Logf("%d bytes: estimated %d, taken %d (%.1f)", len(tc.data), estimated, needed,
				float64(estimated)/float64(needed))
			if estimated < needed {
				t.Errorf("estimated %d, taken %d", estimated, needed)
			}
			if tc.common && estimated > 4*needed {
				t.Errorf("estimated %d for %d", estimated, needed)
			}
			for _, piece := range []int{7, 4096} {
				if got := cost(tc.form, tc.data, piece); got != estimated {
					t.Errorf("in pieces of %d: %d instead of %d", piece, got, estimated)
				}
			}
		})
	}
}

// FuzzMeter checks, for any input, that there is an estimate and that it does not depend on the pieces.
func FuzzMeter(f *testing.F) {
	f.Add([]byte("k8s\x00\x0a\x02\x12\x00\x12\xff"), 3)
	f.Add([]byte(`{"a":[{},"\"{"]}`), 1)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		for _, form := range []bytebudget.Form{asJSON, asBinary, bytebudget.Text} {
			if a, b := cost(form, data, len(data)), cost(form, data, 1+piece&15); a != b {
				t.Errorf("%d: %d and %d", form, a, b)
			}
		}
	})
}
