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

package controllers

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "n", Name: name} }

func opaque(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: meta(name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func pullSecret(name, config string) *corev1.Secret {
	secret := opaque(name, map[string]string{corev1.DockerConfigJsonKey: config})
	secret.Type = corev1.SecretTypeDockerConfigJson
	return secret
}

func serviceAccount(name string, secrets ...string) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: meta(name)}
	for _, secret := range secrets {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return account
}

func helmOpWith(source addonsv1.ArtifactSource) *addonsv1.HelmOp {
	source.URL = "oci://registry.example/charts/hello"
	return &addonsv1.HelmOp{ObjectMeta: meta("hello"), Spec: addonsv1.HelmOpSpec{Source: source}}
}

func secretRef(name string) *addonsv1.SecretReference { return &addonsv1.SecretReference{Name: name} }

func readerOf(objects ...client.Object) (*referenceReader, client.Client) {
	c := clientOf(objects...)
	return newReferenceReader(c, c), c
}

// clientOf is a client of copies of some core objects.
func clientOf(objects ...client.Object) client.Client {
	builder := fake.NewClientBuilder()
	for _, object := range objects {
		builder.WithObjects(object.DeepCopyObject().(client.Object)) // it is written to
	}
	return builder.Build()
}

func TestAccess(t *testing.T) {
	t.Parallel()
	objects := []client.Object{
		pullSecret("own", "1"), pullSecret("first", "2"), pullSecret("second", "3"), opaque("plain", map[string]string{"a": "b"}),
		serviceAccount("puller", "first", "missing", "plain", "second"),
		opaque("ca", map[string]string{"ca.crt": "CA"}),
		opaque("pair", map[string]string{"tls.crt": "CERT", "tls.key": "KEY"}),
		opaque("half", map[string]string{"tls.crt": "CERT"}), opaque("other-half", map[string]string{"tls.key": "KEY"}),
		opaque("proxy", map[string]string{"address": "http://proxy:3128", "username": "u", "password": "p"}),
	}
	tests := map[string]struct {
		source  addonsv1.ArtifactSource
		want    oci.Access
		wantErr bool
	}{
		"nothing":       {addonsv1.ArtifactSource{Provider: "generic"}, oci.Access{}, false},
		"no default":    {addonsv1.ArtifactSource{}, oci.Access{}, false},
		"plain HTTP":    {addonsv1.ArtifactSource{Insecure: true}, oci.Access{Insecure: true}, false},
		"a cloud":       {addonsv1.ArtifactSource{Provider: "aws"}, oci.Access{CloudProvider: "aws"}, false},
		"a secret":      {addonsv1.ArtifactSource{SecretRef: secretRef("own")}, oci.Access{DockerConfigs: [][]byte{[]byte("1")}}, false},
		"no secret":     {addonsv1.ArtifactSource{SecretRef: secretRef("missing")}, oci.Access{}, true},
		"no credential": {addonsv1.ArtifactSource{SecretRef: secretRef("plain")}, oci.Access{}, true},
		"a service account": {addonsv1.ArtifactSource{ServiceAccountName: "puller"},
			oci.Access{DockerConfigs: [][]byte{[]byte("2"), []byte("3")}}, false},
		"a secret before the service account": {addonsv1.ArtifactSource{SecretRef: secretRef("own"), ServiceAccountName: "puller"},
			oci.Access{DockerConfigs: [][]byte{[]byte("1"), []byte("2"), []byte("3")}}, false},
		"no service account": {addonsv1.ArtifactSource{ServiceAccountName: "missing"}, oci.Access{}, true},
		"authorities":        {addonsv1.ArtifactSource{CertSecretRef: secretRef("ca")}, oci.Access{CA: []byte("CA")}, false},
		"a client certificate": {addonsv1.ArtifactSource{CertSecretRef: secretRef("pair")},
			oci.Access{ClientCert: []byte("CERT"), ClientKey: []byte("KEY")}, false},
		"a certificate without key": {addonsv1.ArtifactSource{CertSecretRef: secretRef("half")}, oci.Access{}, true},
		"a key without certificate": {addonsv1.ArtifactSource{CertSecretRef: secretRef("other-half")}, oci.Access{}, true},
		"no certificate":            {addonsv1.ArtifactSource{CertSecretRef: secretRef("plain")}, oci.Access{}, true},
		"a proxy": {addonsv1.ArtifactSource{ProxySecretRef: secretRef("proxy")},
			oci.Access{Proxy: &oci.Proxy{Address: "http://proxy:3128", Username: "u", Password: "p"}}, false},
		"a proxy without address": {addonsv1.ArtifactSource{ProxySecretRef: secretRef("plain")}, oci.Access{}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader, _ := readerOf(objects...)
			access, err := reader.access(t.Context(), helmOpWith(tc.source))
			if tc.wantErr != (err != nil) || tc.wantErr && !errors.Is(err, errReferenceNotFound) {
				t.Fatalf("error %v, want one: %v", err, tc.wantErr)
			}
			if !tc.wantErr && !reflect.DeepEqual(access, tc.want) {
				t.Errorf("got %v, want %v", access, tc.want)
			}
		})
	}
}

func TestAccessFollowsRotation(t *testing.T) {
	t.Parallel()
	reader, c := readerOf(pullSecret("own", "old"))
	helmOp := helmOpWith(addonsv1.ArtifactSource{SecretRef: secretRef("own")})
	for _, config := range []string{"old", "new"} {
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "own"}, secret); err != nil {
			t.Fatal(err)
		}
		secret.Data[corev1.DockerConfigJsonKey] = []byte(config)
		if err := c.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		access, err := reader.access(t.Context(), helmOp)
		if err != nil || string(access.DockerConfigs[0]) != config {
			t.Errorf("got %s, %v, want %s", access.DockerConfigs, err, config)
		}
	}
}

// What the manager may not read is for somebody to mend, and must show; what it cannot read for now is tried again.
func TestMeansTellWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err    error
		passes bool
	}{
		"forbidden":   {apierrors.NewForbidden(secrets, "own", errors.New("no role")), true},
		"not there":   {apierrors.NewNotFound(secrets, "own"), true},
		"unavailable": {apierrors.NewServiceUnavailable("starting"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(pullSecret("own", "1")).Build(), interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return tc.err
				},
			})
			r := &helmOpReconciler{references: newReferenceReader(c, c)}
			by, err := r.means(t.Context(), helmOpWith(addonsv1.ArtifactSource{SecretRef: secretRef("own")}))
			if passes := err == nil; passes != tc.passes {
				t.Fatalf("error = %v", err)
			}
			if tc.passes && reasonFor(by.accessErr, artifactErrors, "") != addonsv1.ReferenceNotFoundReason {
				t.Errorf("the HelmOp says %v", by.accessErr)
			}
		})
	}
}

func TestPullsWith(t *testing.T) {
	t.Parallel()
	reader, _ := readerOf(serviceAccount("puller", "first"))
	if !reader.pullsWith("n", "puller", "other") {
		t.Error("an account that was never read may pull with any Secret")
	}
	if _, err := reader.access(t.Context(), helmOpWith(addonsv1.ArtifactSource{ServiceAccountName: "puller"})); err != nil {
		t.Fatal(err)
	}
	if !reader.pullsWith("n", "puller", "first") || reader.pullsWith("n", "puller", "other") {
		t.Error("an account that was read pulls with its own Secrets only")
	}
}

func TestReferencesOf(t *testing.T) {
	t.Parallel()
	helmOp := helmOpWith(addonsv1.ArtifactSource{
		SecretRef: secretRef("a"), CertSecretRef: secretRef("b"), ProxySecretRef: secretRef("c"), ServiceAccountName: "d",
		Verify: &addonsv1.Verification{SecretRef: secretRef("e"), TrustedRootSecretRef: secretRef("f")},
	})
	helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: kindConfigMap, Name: "g"}}
	got := referencesOf(helmOp)
	slices.Sort(got)
	want := []string{"ConfigMap/g", "Secret/a", "Secret/b", "Secret/c", "Secret/e", "Secret/f", "ServiceAccount/d"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: a change of what is left out reaches nobody", got, want)
	}
	if got := referencesOf(helmOpWith(addonsv1.ArtifactSource{Verify: &addonsv1.Verification{}})); len(got) != 0 {
		t.Errorf("got %v of a HelmOp that names nothing", got)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	objects := []client.Object{
		opaque("keys", map[string]string{"a.pub": "A", "b.pub": "B", "cosign.key": "PRIVATE"}),
		opaque("root", map[string]string{"trusted_root.json": "ROOT"}),
		opaque("notation", map[string]string{"trustpolicy.json": "POLICY", "ca.crt": "C", "ca.pem": "P", "note.txt": "T"}),
	}
	identities := []addonsv1.SignerIdentity{{Issuer: "i", SubjectRegExp: "s"}}
	tests := map[string]struct {
		verify  *addonsv1.Verification
		want    *verification.Policy
		wantErr bool
	}{
		"none": {nil, nil, false},
		"keys": {&addonsv1.Verification{SecretRef: secretRef("keys")},
			&verification.Policy{Provider: verification.Cosign, Keys: map[string][]byte{"a.pub": []byte("A"), "b.pub": []byte("B")}}, false},
		"identities": {&addonsv1.Verification{Provider: "cosign", Identities: identities},
			&verification.Policy{Provider: verification.Cosign, Identities: []verification.Identity{{Issuer: "i", SubjectRegExp: "s"}}}, false},
		"a private root": {&addonsv1.Verification{Identities: identities, TrustedRootSecretRef: secretRef("root")},
			&verification.Policy{Provider: verification.Cosign, TrustedRoot: []byte("ROOT"),
				Identities: []verification.Identity{{Issuer: "i", SubjectRegExp: "s"}}}, false},
		"notation": {&addonsv1.Verification{Provider: "notation", SecretRef: secretRef("notation")},
			&verification.Policy{Provider: verification.Notation, TrustPolicy: []byte("POLICY"),
				Certificates: map[string][]byte{"ca.crt": []byte("C"), "ca.pem": []byte("P")}}, false},
		"no secret":            {&addonsv1.Verification{SecretRef: secretRef("missing")}, nil, true},
		"no root":              {&addonsv1.Verification{Identities: identities, TrustedRootSecretRef: secretRef("missing")}, nil, true},
		"a root without a key": {&addonsv1.Verification{Identities: identities, TrustedRootSecretRef: secretRef("keys")}, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader, _ := readerOf(objects...)
			policy, err := reader.policy(t.Context(), helmOpWith(addonsv1.ArtifactSource{Verify: tc.verify}))
			if tc.wantErr != (err != nil) || tc.wantErr && !errors.Is(err, errReferenceNotFound) {
				t.Fatalf("error %v, want one: %v", err, tc.wantErr)
			}
			if !reflect.DeepEqual(policy, tc.want) {
				t.Errorf("got %v, want %v", policy, tc.want)
			}
		})
	}
}
