// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// bed renders a HelmOp in namespace n, and counts which contents are read.
type bed struct {
	*testing.T
	*Renderer
	client client.WithWatch
	reads  map[string]int
	fails  error
}

func newBed(t *testing.T, objects ...client.Object) *bed {
	t.Helper()
	b := &bed{T: t, reads: map[string]int{}}
	b.client = controllertest.ClientOf(objects...).(client.WithWatch)
	live := interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			opts ...client.GetOption) error {
			b.reads[key.String()]++
			if b.fails != nil {
				return b.fails
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	b.Renderer = New(references.NewReader(b.client, live), clusterview.NewReader(b.client, live))
	return b
}

func clusterOf(namespace, name string, labels map[string]string) (*unstructured.Unstructured, *clusterv1.Cluster) {
	u := apiutil.NewCluster()
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID(namespace + name))
	u.SetLabels(labels)
	u.SetResourceVersion("1")
	return u, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// outcomeOf compiles and renders a HelmOp for a Cluster.
func (b *bed) outcomeOf(helmOp *addonsv1.HelmOp, namespace, name string, labels map[string]string) outcome {
	b.Helper()
	p, err := b.Compile(b.Context(), helmOp)
	if err != nil {
		b.Fatal(err)
	}
	u, cluster := clusterOf(namespace, name, labels)
	rendered, _, _ := b.Outcome(b.Context(), p, u, cluster, "")
	return rendered
}

func (b *bed) write(name, values string) {
	b.Helper()
	secret := controllertest.Opaque(name, map[string]string{"values.yaml": values})
	err := b.client.Update(b.Context(), secret)
	if err != nil {
		err = b.client.Create(b.Context(), secret)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func namedByCluster(optional bool) *addonsv1.HelmOp {
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
	helmOp.UID = "1"
	helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{
		{Kind: apiutil.KindSecret, Name: "{{ .Cluster.metadata.name }}-cloud", Key: "values.yaml", Optional: optional},
	}
	return helmOp
}

// TestClusterObjectsAreReadOnce checks that an idle pass reads no contents, and that a change only affects its Cluster.
func TestClusterObjectsAreReadOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("a-cloud", "password: a")
	b.write("b-cloud", "password: b")
	helmOp := namedByCluster(false)
	first, second := b.outcomeOf(helmOp, "n", "a", nil), b.outcomeOf(helmOp, "n", "b", nil)
	if first.Err != nil || second.Err != nil || first.ValuesDigest == second.ValuesDigest {
		t.Fatalf("got %+v and %+v", first, second)
	}
	for range 3 {
		b.outcomeOf(helmOp, "n", "a", nil)
	}
	if b.reads["n/a-cloud"] != 1 || b.reads["n/b-cloud"] != 1 {
		t.Errorf("contents were read %v", b.reads)
	}
	b.write("a-cloud", "password: c")
	if changed := b.outcomeOf(helmOp, "n", "a", nil); changed.Err != nil || changed.ValuesDigest == first.ValuesDigest {
		t.Errorf("after a change there is %+v", changed)
	}
	if same := b.outcomeOf(helmOp, "n", "b", nil); same.ValuesDigest != second.ValuesDigest || b.reads["n/b-cloud"] != 1 {
		t.Errorf("the other Cluster has %+v", same)
	}
	p, err := b.Compile(t.Context(), helmOp)
	if err != nil {
		t.Fatal(err)
	}
	b.write("a-cloud", "password: d")
	if again, err := b.Compile(t.Context(), helmOp); err != nil || again.Digest != p.Digest {
		t.Errorf("the Secret of a Cluster is part of the HelmOp revision, or %v", err)
	}
}

func TestMissingClusterObject(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	helmOp := namedByCluster(false)
	for range 2 {
		got := b.outcomeOf(helmOp, "n", "a", nil)
		want := `spec.valuesFrom[0] for Cluster "a": Secret n/a-cloud: not found; create it or correct the reference`
		if !errors.Is(got.Err, references.ErrReferenceNotFound) || got.Err.Error() != want {
			t.Fatalf("got %v, want %s", got.Err, want)
		}
		if len(got.References) != 1 || got.References[0].Name != "a-cloud" {
			t.Errorf("the references are %v", got.References)
		}
	}
	if len(b.reads) != 0 {
		t.Errorf("what does not exist was read: %v", b.reads)
	}
	if got := b.outcomeOf(namedByCluster(true), "n", "a", nil); got.Err != nil {
		t.Errorf("an optional one: %v", got.Err)
	}
	b.write("a-cloud", "password: a")
	if got := b.outcomeOf(helmOp, "n", "a", nil); got.Err != nil {
		t.Errorf("once it is there: %v", got.Err)
	}
	helmOp.Spec.ValuesFrom[0].Key = "other"
	want := `spec.valuesFrom[0] for Cluster "a": Secret n/a-cloud has no key "other": not found`
	if got := b.outcomeOf(helmOp, "n", "a", nil); got.Err == nil || got.Err.Error() != want {
		t.Errorf("got %v, want %s", got.Err, want)
	}
}

// TestUnreadableObjectIsReadAgain checks that an error of the API server is not cached.
func TestUnreadableObjectIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("a-cloud", "password: a")
	b.fails = errors.New("try again")
	if got := b.outcomeOf(namedByCluster(false), "n", "a", nil); !errors.Is(got.Err, ErrObjectRead) {
		t.Fatalf("got %v", got.Err)
	}
	b.fails = nil
	if got := b.outcomeOf(namedByCluster(false), "n", "a", nil); got.Err != nil {
		t.Errorf("got %v", got.Err)
	}
}

// TestUnreadableSharedObject checks that a HelmOp is not to blame if the API server fails for an object that all
// Clusters share.
func TestUnreadableSharedObject(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("shared", "password: a")
	b.fails = apierrors.NewServiceUnavailable("starting")
	helmOp := namedByCluster(false)
	helmOp.Spec.ValuesFrom[0].Name = "shared"
	if _, err := b.Compile(b.Context(), helmOp); !errors.Is(err, ErrObjectRead) {
		t.Errorf("got %v", err)
	}
}

// TestObjectsStayInTheNamespaceOfTheHelmOp has a Cluster of another namespace, where there is an object of the same
// name.
func TestObjectsStayInTheNamespaceOfTheHelmOp(t *testing.T) {
	t.Parallel()
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a-cloud"},
		Data: map[string][]byte{"values.yaml": []byte("a: 1")}}
	b := newBed(t, other)
	helmOp := namedByCluster(false)
	want := `spec.valuesFrom[0] for Cluster "other/a": Secret n/a-cloud: not found; create it or correct the reference`
	if got := b.outcomeOf(helmOp, "other", "a", nil); got.Err == nil || got.Err.Error() != want {
		t.Errorf("got %v, want %s", got.Err, want)
	}
	helmOp.Spec.ValuesFrom[0].Name = "{{ .Cluster.metadata.namespace }}/{{ .Cluster.metadata.name }}-cloud"
	if got := b.outcomeOf(helmOp, "other", "a", nil); got.Err == nil ||
		!strings.Contains(got.Err.Error(), "yields a name that is not") {
		t.Errorf("a name with a namespace: %v", got.Err)
	}
	if len(b.reads) != 0 {
		t.Errorf("read: %v", b.reads)
	}
}

// TestSecretValues checks that the values of Secrets are collected from each field that can name a Secret, because
// messages must not show them.
func TestSecretValues(t *testing.T) {
	t.Parallel()
	b := newBed(t, &corev1.ConfigMap{ObjectMeta: controllertest.Meta("shown"),
		Data: map[string]string{"values.yaml": "a: shown"}})
	for _, name := range []string{"fixed", "a-cloud", "over", "a-over", "other"} {
		b.write(name, "secret: "+name)
	}
	from := func(kind, name, path string) addonsv1.ValuesReference {
		return addonsv1.ValuesReference{Kind: kind, Name: name, Key: "values.yaml", TargetPath: path}
	}
	helmOp := namedByCluster(false)
	helmOp.Spec.ValuesFrom = append(helmOp.Spec.ValuesFrom, from(apiutil.KindSecret, "fixed", ""),
		from(apiutil.KindConfigMap, "shown", ""))
	helmOp.Spec.Overrides = []addonsv1.Override{
		{Name: "it", ClusterSelector: controllertest.Labelled("it", "yes"), ValuesFrom: []addonsv1.ValuesReference{
			from(apiutil.KindSecret, "over", "path.over"),
			from(apiutil.KindSecret, "{{ .Cluster.metadata.name }}-over", "path.list[0]"),
			from(apiutil.KindConfigMap, "shown", "path.shown"),
		}},
		{Name: "other", ClusterSelector: controllertest.Labelled("it", "no"),
			ValuesFrom: []addonsv1.ValuesReference{from(apiutil.KindSecret, "other", "")}},
	}
	u, cluster := clusterOf("n", "a", map[string]string{"it": "yes"})
	result, secrets, err := b.Values(t.Context(), helmOp, u, cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"secret": "fixed", "a": "shown", "path": map[string]any{
		"over": "secret: over", "list": []any{"secret: a-over"}, "shown": "a: shown",
	}}
	if !reflect.DeepEqual(result.Values, want) {
		t.Errorf("got %v, want %v", result.Values, want)
	}
	for _, secret := range []string{"fixed", "a-cloud", "secret: over", "secret: a-over"} {
		if !strings.Contains(fmt.Sprint(secrets), secret) {
			t.Errorf("%q is not among the secrets %v", secret, secrets)
		}
	}
	if strings.Contains(fmt.Sprint(secrets), "other") || strings.Contains(fmt.Sprint(secrets), "shown") {
		t.Errorf("the secrets are %v", secrets)
	}
}

// TestSecretContent checks that the secret values have the form in which the chart gets them.
func TestSecretContent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content        secretContent
		secret, public []any
	}{
		"a null key": {content: secretContent{data: []byte("token: s3cret\n~: x")},
			secret: []any{map[string]any{"token": "s3cret", "~": "x"}}},
		"a number that a float rounds": {content: secretContent{data: []byte("pin: 12345678901234567")},
			secret: []any{map[string]any{"pin": int64(12345678901234567)}}},
		"keys": {content: secretContent{data: []byte("users:\n- {alice@example.com: {tier-1: 1}, Zx81Qp7: {}}\nimage: x\n" +
			"k8sServiceHost: y\nexample.com/ipv4: z")}, secret: []any{"alice@example.com", "Zx81Qp7"},
			public: []any{"users", "image", "k8sServiceHost", "tier-1", "example.com/ipv4"}},
		"not YAML":         {content: secretContent{data: []byte("{s3cret\n")}, secret: []any{"{s3cret\n", "{s3cret"}},
		"a %TAG directive": {content: secretContent{data: []byte("%TAG ! t\n")}, secret: []any{"%TAG ! t\n"}},
		"a text":           {content: secretContent{data: []byte("a: b\n"), isText: true}, secret: []any{"a: b\n", "a: b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.content.values()
			has := func(value any) bool {
				return slices.ContainsFunc(got, func(one any) bool { return reflect.DeepEqual(one, value) })
			}
			for _, value := range tc.secret {
				if !has(value) {
					t.Errorf("%#v is not secret: %#v", value, got)
				}
			}
			for _, value := range tc.public {
				if has(value) {
					t.Errorf("%#v is secret: %#v", value, got)
				}
			}
		})
	}
}

// TestAliasesInSecretTakeLittleMemory checks that the manager refuses aliases before it expands them. The test does not
// run in parallel, because it counts the memory that the process allocates.
func TestAliasesInSecretTakeLittleMemory(t *testing.T) {
	b := newBed(t)
	const text, aliases, limit = 100 << 10, 300, 16 << 20
	b.write("bomb", "a: &a "+strings.Repeat("x", text)+"\nl: ["+strings.Repeat("*a,", aliases)+"]")
	helmOp := namedByCluster(false)
	helmOp.Spec.ValuesFrom[0].Name = "bomb"
	var err error
	used := allocatedBy(func() { _, err = b.Compile(t.Context(), helmOp) })
	if err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("got %v", err)
	}
	if used > limit {
		t.Errorf("%d bytes were allocated, want at most %d; the expanded text has %d", used, limit, text*aliases)
	}
}

// manyReferences returns a HelmOp with the most references that the API permits, or fewer. All name the same key.
func manyReferences(perList, overrides int, ref addonsv1.ValuesReference) *addonsv1.HelmOp {
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
	helmOp.Spec.ValuesFrom = slices.Repeat([]addonsv1.ValuesReference{ref}, perList)
	for i := range overrides {
		helmOp.Spec.Overrides = append(helmOp.Spec.Overrides, addonsv1.Override{Name: fmt.Sprint(i),
			ClusterSelector: controllertest.Labelled("it", "yes"), ValuesFrom: helmOp.Spec.ValuesFrom})
	}
	return helmOp
}

// withCheapMetadata answers all reads of metadata, because the fake client copies the whole object for each of them.
func (b *bed) withCheapMetadata() {
	metadata := interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			obj.SetResourceVersion("1")
			return nil
		},
	})
	b.Renderer = New(references.NewReader(metadata, b.client), clusterview.NewReader(b.client, b.client))
}

// allocatedBy returns the bytes that a function allocates.
func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestManyReferencesToOneKeyTakeLittleMemory checks the limit of all contents together. The test does not run in
// parallel, because it counts the memory that the process allocates.
func TestManyReferencesToOneKeyTakeLittleMemory(t *testing.T) {
	b := newBed(t)
	b.write("big", strings.Repeat("x", 1<<20))
	b.withCheapMetadata()
	ref := addonsv1.ValuesReference{Kind: apiutil.KindSecret, Name: "big", Key: "values.yaml", TargetPath: "a"}
	var err error
	const limit = 64 << 20
	used := allocatedBy(func() { _, err = b.Compile(t.Context(), manyReferences(32, 32, ref)) })
	want := "spec.overrides[0] (0).valuesFrom[0]: is, with the sources before it, larger than 33554432 bytes"
	var invalid *templating.Error
	if !errors.As(err, &invalid) || invalid.Reason != templating.ReasonLimitExceeded || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if used > limit {
		t.Errorf("%d bytes were allocated, want at most %d", used, limit)
	}
	used = allocatedBy(func() { _, err = b.Compile(t.Context(), manyReferences(32, 0, ref)) })
	if err != nil || used > limit {
		t.Errorf("below the limit: %v, and %d bytes were allocated, want at most %d", err, used, limit)
	}
}

// TestManyReferencesToAliasesTakeLittleMemory checks the limit of all values together, for a short text whose aliases
// expand to many values. The test does not run in parallel, because it counts the memory that the process allocates.
func TestManyReferencesToAliasesTakeLittleMemory(t *testing.T) {
	const inner, outer, refs, limit = 300, 300, 16, 128 << 20
	b := newBed(t)
	b.write("bomb", "a: &a ["+strings.Repeat("1,", inner)+"]\nl: ["+strings.Repeat("*a,", outer)+"]")
	ref := func(name string) addonsv1.ValuesReference {
		return addonsv1.ValuesReference{Kind: apiutil.KindSecret, Name: name, Key: "values.yaml"}
	}
	for name, helmOp := range map[string]*addonsv1.HelmOp{
		"fixed":        manyReferences(refs, 0, ref("bomb")),
		"of a Cluster": manyReferences(refs, 0, ref("{{ `bomb` }}")),
	} {
		var err error
		var secrets []any
		u, cluster := clusterOf("n", "a", nil)
		used := allocatedBy(func() { _, secrets, err = b.Values(t.Context(), helmOp, u, cluster) })
		var invalid *templating.Error
		if !errors.As(err, &invalid) || invalid.Reason != templating.ReasonLimitExceeded || secrets != nil {
			t.Errorf("%s: got %v and %d secrets", name, err, len(secrets))
		}
		if used > limit {
			t.Errorf("%s: %d bytes were allocated, want at most %d", name, used, limit)
		}
	}
}

// TestContentsOfOneClusterAreLimited checks that the manager stops to read the objects of a Cluster at a limit.
func TestContentsOfOneClusterAreLimited(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("big", strings.Repeat("x", 1<<20))
	b.withCheapMetadata()
	helmOp := manyReferences(17, 0, addonsv1.ValuesReference{Kind: apiutil.KindSecret, Name: "{{ `big` }}",
		Key: "values.yaml", TargetPath: "a"})
	got := b.outcomeOf(helmOp, "n", "a", nil)
	want := "spec.valuesFrom[16]: is, with the sources before it, larger than 16777216 bytes"
	if got.Err == nil || got.Err.Error() != want {
		t.Errorf("got %v, want %s", got.Err, want)
	}
}

// TestOutcomesAreBounded checks that the cache of outcomes has a limit in bytes, which counts the references. An author
// edits a HelmOp again and again.
func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	const refs, edits, limit = 32, 40, 256 << 10
	b := newBed(t)
	b.WithCache(limit)
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
	for i := range refs {
		helmOp.Spec.ValuesFrom = append(helmOp.Spec.ValuesFrom, addonsv1.ValuesReference{Kind: apiutil.KindSecret,
			Name: fmt.Sprintf("{{ `%s` }}%d", strings.Repeat("x", 250), i), Key: "k", Optional: true})
	}
	for i := range edits {
		helmOp.Spec.ValuesTemplate = fmt.Sprintf("a: %d", i)
		if got := b.outcomeOf(helmOp, "n", "a", nil); got.Err != nil || len(got.References) != refs {
			t.Fatalf("got %v with %d references", got.Err, len(got.References))
		}
	}
	if kept := len(b.outcomes.kept); kept < 10 || kept > limit/(refs*250) {
		t.Errorf("%d outcomes are kept, want at most %d", kept, limit/(refs*250))
	}
	b.outcomes.wantSum(t)
}

// TestMissingObjectOfAnOverride fails the Clusters of the override and no others, and is part of the HelmOp revision.
func TestMissingObjectOfAnOverride(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
	helmOp.Spec.Overrides = []addonsv1.Override{{
		Name: "it", ClusterSelector: controllertest.Labelled("it", "yes"),
		ValuesFrom: []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "over", Key: "values.yaml"}},
	}}
	before, err := b.Compile(t.Context(), helmOp)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.outcomeOf(helmOp, "n", "a", nil); got.Err != nil {
		t.Errorf("another Cluster: %v", got.Err)
	}
	if got := b.outcomeOf(helmOp, "n", "b", map[string]string{"it": "yes"}); !errors.Is(got.Err,
		references.ErrReferenceNotFound) {
		t.Errorf("a Cluster of the override: %v", got.Err)
	}
	for override, missing := range before.sources.missing {
		missing.err = fmt.Errorf("this message is new: %w", missing.err)
		before.sources.missing[override] = missing
	}
	described, err := b.Compile(t.Context(), helmOp)
	if err != nil || !slices.Equal(before.sources.description(), described.sources.description()) {
		t.Errorf("the message is part of the HelmOp revision, or %v", err)
	}
	if err := b.client.Create(t.Context(), controllertest.Opaque("over", nil)); err != nil {
		t.Fatal(err)
	}
	if got := b.outcomeOf(helmOp, "n", "b", map[string]string{"it": "yes"}); got.Err == nil ||
		!strings.Contains(got.Err.Error(), "has no key") {
		t.Errorf("the object has no key: %v", got.Err)
	}
	b.write("over", "a: 1")
	after, err := b.Compile(t.Context(), helmOp)
	if err != nil || after.Digest == before.Digest {
		t.Errorf("the object is not part of the HelmOp revision, or %v", err)
	}
	b.write("over", "a: 2")
	if changed, err := b.Compile(t.Context(), helmOp); err != nil || changed.Digest == after.Digest {
		t.Errorf("its content is not part of the HelmOp revision, or %v", err)
	}
	if got := b.outcomeOf(helmOp, "n", "b", map[string]string{"it": "yes"}); got.Err != nil {
		t.Errorf("once it is there: %v", got.Err)
	}
	helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "none", Key: "values.yaml"}}
	if _, err := b.Compile(t.Context(), helmOp); !errors.Is(err, references.ErrReferenceNotFound) {
		t.Errorf("what all Clusters need: %v", err)
	}
}
