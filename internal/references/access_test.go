// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
)

func serviceAccount(name string, secrets ...string) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: controllertest.Meta(name)}
	for _, secret := range secrets {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return account
}

func readerOf(objects ...client.Object) (*Reader, client.Client) {
	c := controllertest.ClientOf(objects...)
	return NewReader(c, c), c
}

func TestAccess(t *testing.T) {
	t.Parallel()
	objects := []client.Object{
		controllertest.PullSecret("own", "1"), controllertest.PullSecret("first", "2"),
		controllertest.PullSecret("second", "3"), controllertest.Opaque("plain", map[string]string{"a": "b"}),
		serviceAccount("puller", "first", "missing", "plain", "second"),
		controllertest.Opaque("ca", map[string]string{"ca.crt": "CA"}),
		controllertest.Opaque("pair", map[string]string{"tls.crt": "CERT", "tls.key": "KEY"}),
		controllertest.Opaque("half", map[string]string{"tls.crt": "CERT"}),
		controllertest.Opaque("other-half", map[string]string{"tls.key": "KEY"}),
		controllertest.Opaque("login", map[string]string{"username": "u", "password": "p"}),
		controllertest.Opaque("proxy", map[string]string{"address": "http://proxy:3128", "username": "u", "password": "p"}),
	}
	tests := map[string]struct {
		source  addonsv1.ArtifactSource
		want    oci.Access
		wantErr bool
	}{
		"nothing":    {addonsv1.ArtifactSource{Provider: "generic"}, oci.Access{}, false},
		"no default": {addonsv1.ArtifactSource{}, oci.Access{}, false},
		"plain HTTP": {addonsv1.ArtifactSource{Insecure: true}, oci.Access{Insecure: true}, false},
		"a cloud":    {addonsv1.ArtifactSource{Provider: "aws"}, oci.Access{CloudProvider: "aws"}, false},
		"a secret": {addonsv1.ArtifactSource{SecretRef: controllertest.SecretRef("own")},
			oci.Access{DockerConfigs: [][]byte{[]byte("1")}}, false},
		"a chart repository": {addonsv1.ArtifactSource{URL: "https://charts.example:8443/stable", Chart: "a",
			SecretRef: controllertest.SecretRef("login")}, oci.Access{DockerConfigs: [][]byte{
			[]byte(`{"auths":{"charts.example:8443":{"password":"p","username":"u"}}}`)}}, false},
		"a chart repository with a Docker config": {addonsv1.ArtifactSource{URL: "https://charts.example/stable", Chart: "a",
			SecretRef: controllertest.SecretRef("own")}, oci.Access{DockerConfigs: [][]byte{[]byte("1")}}, false},
		"a chart repository without a login": {addonsv1.ArtifactSource{URL: "https://charts.example/stable", Chart: "a",
			SecretRef: controllertest.SecretRef("plain")}, oci.Access{}, true},
		"a login for a registry": {addonsv1.ArtifactSource{URL: "oci://r.example/a",
			SecretRef: controllertest.SecretRef("login")}, oci.Access{}, true},
		"no secret":     {addonsv1.ArtifactSource{SecretRef: controllertest.SecretRef("missing")}, oci.Access{}, true},
		"no credential": {addonsv1.ArtifactSource{SecretRef: controllertest.SecretRef("plain")}, oci.Access{}, true},
		"a service account": {addonsv1.ArtifactSource{ImagePullServiceAccountName: "puller"},
			oci.Access{DockerConfigs: [][]byte{[]byte("2"), []byte("3")}}, false},
		"a secret before the service account": {addonsv1.ArtifactSource{SecretRef: controllertest.SecretRef("own"),
			ImagePullServiceAccountName: "puller"},
			oci.Access{DockerConfigs: [][]byte{[]byte("1"), []byte("2"), []byte("3")}}, false},
		"no service account": {addonsv1.ArtifactSource{ImagePullServiceAccountName: "missing"}, oci.Access{}, true},
		"authorities": {addonsv1.ArtifactSource{CertSecretRef: controllertest.SecretRef("ca")},
			oci.Access{CA: []byte("CA")}, false},
		"a client certificate": {addonsv1.ArtifactSource{CertSecretRef: controllertest.SecretRef("pair")},
			oci.Access{ClientCert: []byte("CERT"), ClientKey: []byte("KEY")}, false},
		"a certificate without key": {addonsv1.ArtifactSource{CertSecretRef: controllertest.SecretRef("half")}, oci.Access{},
			true},
		"a key without certificate": {addonsv1.ArtifactSource{CertSecretRef: controllertest.SecretRef("other-half")},
			oci.Access{}, true},
		"no certificate": {addonsv1.ArtifactSource{CertSecretRef: controllertest.SecretRef("plain")}, oci.Access{},
			true},
		"a proxy": {addonsv1.ArtifactSource{ProxySecretRef: controllertest.SecretRef("proxy")},
			oci.Access{Proxy: &credentials.Proxy{Address: "http://proxy:3128", Username: "u", Password: "p"}}, false},
		"a proxy without address": {addonsv1.ArtifactSource{ProxySecretRef: controllertest.SecretRef("plain")}, oci.Access{},
			true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader, _ := readerOf(objects...)
			access, err := reader.Access(t.Context(), controllertest.HelmOpWith(tc.source))
			if tc.wantErr != (err != nil) || tc.wantErr && !errors.Is(err, ErrReferenceNotFound) {
				t.Fatalf("error %v, want one: %v", err, tc.wantErr)
			}
			if !tc.wantErr && !reflect.DeepEqual(access, tc.want) {
				t.Errorf("got %v, want %v", access, tc.want)
			}
		})
	}
}

// TestPullSecretsAreLimited checks that each image pull secret of a ServiceAccount counts once, and that too many or
// too large ones are an error of the user.
func TestPullSecretsAreLimited(t *testing.T) {
	t.Parallel()
	const large = 900 << 10
	names := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint("absent-", i))
		}
		return names
	}
	reader, _ := readerOf(
		controllertest.PullSecret("small", "1"), controllertest.PullSecret("one", strings.Repeat("1", large)),
		controllertest.PullSecret("two", strings.Repeat("2", large)),
		controllertest.Opaque("three", map[string]string{"a": strings.Repeat("3", large)}),
		serviceAccount("twice", slices.Repeat([]string{"small", "absent"}, 5000)...),
		serviceAccount("most", append(names(maxPullSecrets-1), "small", "small")...),
		serviceAccount("many", append(names(maxPullSecrets), "small")...),
		serviceAccount("large", "one", "two"), serviceAccount("too-large", "one", "two", "three"),
	)
	for account, want := range map[string]struct {
		configs int
		detail  string
	}{
		"twice": {1, ""}, "most": {1, ""}, "large": {2, ""}, "many": {0, "it has more than 64 image pull secrets"},
		"too-large": {2, "its image pull secrets have more than 2097152 bytes together"},
	} {
		access, err := reader.Access(t.Context(),
			controllertest.HelmOpWith(addonsv1.ArtifactSource{ImagePullServiceAccountName: account}))
		if len(access.DockerConfigs) != want.configs {
			t.Errorf("%s: %d configs, want %d", account, len(access.DockerConfigs), want.configs)
		}
		if want.detail == "" && err == nil {
			continue
		}
		text := "spec.source.imagePullServiceAccountName: read ServiceAccount n/" + account +
			": invalid access settings: " + want.detail + "; remove image pull secrets from it, or set secretRef instead"
		if !errors.Is(err, ocierr.ErrInvalidAccess) || err.Error() != text {
			t.Errorf("%s: got %v, want %s", account, err, text)
		}
	}
}

func TestAccessFollowsRotation(t *testing.T) {
	t.Parallel()
	reader, c := readerOf(controllertest.PullSecret("own", "old"))
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{SecretRef: controllertest.SecretRef("own")})
	for _, config := range []string{"old", "new"} {
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "own"}, secret); err != nil {
			t.Fatal(err)
		}
		secret.Data[corev1.DockerConfigJsonKey] = []byte(config)
		if err := c.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		access, err := reader.Access(t.Context(), helmOp)
		if err != nil || string(access.DockerConfigs[0]) != config {
			t.Errorf("got %s, %v, want %s", access.DockerConfigs, err, config)
		}
	}
}

func TestPullsWith(t *testing.T) {
	t.Parallel()
	reader, _ := readerOf(serviceAccount("puller", "first"))
	if !reader.PullsWith("n", "puller", "other") {
		t.Error("an account that was never read may pull with any Secret")
	}
	if _, err := reader.Access(t.Context(),
		controllertest.HelmOpWith(addonsv1.ArtifactSource{ImagePullServiceAccountName: "puller"})); err != nil {
		t.Fatal(err)
	}
	if !reader.PullsWith("n", "puller", "first") || reader.PullsWith("n", "puller", "other") {
		t.Error("an account that was read pulls with its own Secrets only")
	}
}

func TestReferencesOf(t *testing.T) {
	t.Parallel()
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{
		SecretRef: controllertest.SecretRef("a"), CertSecretRef: controllertest.SecretRef("b"),
		ProxySecretRef: controllertest.SecretRef("c"), ImagePullServiceAccountName: "d",
		Verify: &addonsv1.Verification{SecretRef: controllertest.SecretRef("e"),
			TrustedRootSecretRef: controllertest.SecretRef("f")},
	})
	helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindConfigMap, Name: "g"}}
	got := Of(helmOp)
	slices.Sort(got)
	want := []string{"ConfigMap/g", "Secret/a", "Secret/b", "Secret/c", "Secret/e", "Secret/f", "ServiceAccount/d"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: a change of a Cluster that is left out enqueues no HelmOp", got, want)
	}
	if got := Of(controllertest.HelmOpWith(addonsv1.ArtifactSource{Verify: &addonsv1.Verification{}})); len(got) != 0 {
		t.Errorf("got %v of a HelmOp that names nothing", got)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
	helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{
		{Kind: apiutil.KindSecret, Name: "a-{{ .Cluster.metadata.name }}-b"}, {Kind: apiutil.KindConfigMap, Name: "fixed"},
	}
	helmOp.Spec.Overrides = []addonsv1.Override{{ValuesFrom: []addonsv1.ValuesReference{
		{Kind: apiutil.KindConfigMap, Name: "{{ .Cluster.metadata.name }}"}, {Kind: apiutil.KindSecret, Name: "over"},
	}}}
	if got, want := Of(helmOp), []string{"ConfigMap/fixed", "Secret/over"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !HasFixedValues(helmOp) || HasFixedValues(&addonsv1.HelmOp{Spec: addonsv1.HelmOpSpec{
		ValuesFrom: []addonsv1.ValuesReference{{Name: "{{ .Cluster.metadata.name }}"}},
	}}) {
		t.Error("fixed names do not differ from templates")
	}
	mayYield := func(kind, name string) bool {
		return slices.ContainsFunc(Patterns(helmOp), func(p Pattern) bool { return p.MayYield(kind, name) })
	}
	for object, want := range map[string]bool{
		"Secret/a-x-b": true, "Secret/a--b": true, "Secret/a-b": false, "Secret/x-b": false, "Secret/a-x": false,
		"Secret/over":   false,
		"ConfigMap/any": true, "ServiceAccount/a-x-b": false,
	} {
		kind, name, _ := strings.Cut(object, "/")
		if got := mayYield(kind, name); got != want {
			t.Errorf("%s: got %v, want %v", object, got, want)
		}
	}
	helmOp.Spec.TemplateDelimiters = addonsv1.TemplateDelimitersDollar
	if got := Patterns(helmOp); len(got) != 0 || len(Of(helmOp)) != 4 {
		t.Errorf("with the other delimiters: %v, %v", got, Of(helmOp))
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	objects := []client.Object{
		controllertest.Opaque("keys", map[string]string{"a.pub": "A", "b.pub": "B", "cosign.key": "PRIVATE"}),
		controllertest.Opaque("pgp", map[string]string{"a.gpg": "A", "b.asc": "B", "c.pub": "C"}),
		controllertest.Opaque("root", map[string]string{"trusted_root.json": "ROOT"}),
		controllertest.Opaque("notation",
			map[string]string{"trustpolicy.json": "POLICY", "ca.crt": "C", "ca.pem": "P", "note.txt": "T"}),
	}
	identities := []addonsv1.SignerIdentity{{Issuer: "i", SubjectRegExp: "s"}}
	tests := map[string]struct {
		verify  *addonsv1.Verification
		want    *verification.Policy
		wantErr bool
	}{
		"none": {nil, nil, false},
		"keys": {&addonsv1.Verification{SecretRef: controllertest.SecretRef("keys")},
			&verification.Policy{Provider: verification.Cosign,
				Keys: map[string][]byte{"a.pub": []byte("A"), "b.pub": []byte("B")}}, false},
		"identities": {&addonsv1.Verification{Provider: "cosign", Identities: identities},
			&verification.Policy{Provider: verification.Cosign,
				Identities: []verification.Identity{{Issuer: "i", SubjectRegExp: "s"}}}, false},
		"a private root": {&addonsv1.Verification{Identities: identities,
			TrustedRootSecretRef: controllertest.SecretRef("root")},
			&verification.Policy{Provider: verification.Cosign, TrustedRoot: []byte("ROOT"),
				Identities: []verification.Identity{{Issuer: "i", SubjectRegExp: "s"}}}, false},
		"notation": {&addonsv1.Verification{Provider: "notation", SecretRef: controllertest.SecretRef("notation")},
			&verification.Policy{Provider: verification.Notation, TrustPolicy: []byte("POLICY"),
				Certificates: map[string][]byte{"ca.crt": []byte("C"), "ca.pem": []byte("P")}}, false},
		"provenance files": {&addonsv1.Verification{Provider: "HelmProvenance", SecretRef: controllertest.SecretRef("pgp")},
			&verification.Policy{Provider: verification.HelmProvenance,
				Keyrings: map[string][]byte{"a.gpg": []byte("A"), "b.asc": []byte("B")}}, false},
		"no secret": {&addonsv1.Verification{SecretRef: controllertest.SecretRef("missing")}, nil, true},
		"no root": {&addonsv1.Verification{Identities: identities,
			TrustedRootSecretRef: controllertest.SecretRef("missing")}, nil, true},
		"a root without a key": {&addonsv1.Verification{Identities: identities,
			TrustedRootSecretRef: controllertest.SecretRef("keys")}, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader, _ := readerOf(objects...)
			policy, err := reader.Policy(t.Context(), controllertest.HelmOpWith(addonsv1.ArtifactSource{Verify: tc.verify}))
			if tc.wantErr != (err != nil) || tc.wantErr && !errors.Is(err, ErrReferenceNotFound) {
				t.Fatalf("error %v, want one: %v", err, tc.wantErr)
			}
			if !reflect.DeepEqual(policy, tc.want) {
				t.Errorf("got %v, want %v", policy, tc.want)
			}
		})
	}
}
