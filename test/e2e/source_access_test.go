// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// never is an interval longer than any test. A change is then noticed for another cause.
var never = metav1.Duration{Duration: 24 * time.Hour}

// mounted are the files whose paths are flags of the manager.
type mounted struct {
	credentials, ca, registries *mountedFile
}

func newMounted(t *testing.T) mounted {
	t.Helper()
	dir, err := os.MkdirTemp(suite.dir, "mounted-")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, content string) *mountedFile {
		f, err := newMountedFile(filepath.Join(dir, name), content)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	return mounted{credentials: file("config.json", `{"auths":{}}`), ca: file("ca.crt", ""),
		registries: file("registries.conf", "")}
}

func (m mounted) args() []string {
	return []string{
		"--v=6", "--registry-credentials-file=" + m.credentials.path, "--registry-ca-file=" + m.ca.path,
		"--registries-file=" + m.registries.path, "--registry-token-hosts=localhost",
	}
}

// TestSource uses all ways to access a registry, with real registries.
func TestSource(t *testing.T) {
	begin(t)
	files := newMounted(t)
	env := ownEnvironment(t, environment.Options{NoCharts: true, ManagerArgs: files.args()})
	s := newScenarioIn(t, env)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	secrets := &plantedSecrets{}
	parts := map[string]func(s *scenario, one *workload, secrets *plantedSecrets){
		"the order of credentials": func(s *scenario, one *workload,
			p *plantedSecrets) {
			testCredentialOrder(s, one, files, p)
		},
		"credentials of a service account": testServiceAccount,
		"a token service":                  testTokenServices,
		"a client certificate":             testClientCertificate,
		"a proxy":                          testProxy,
		"a mirror in place of the registry": func(s *scenario, one *workload,
			p *plantedSecrets) {
			testMirror(s, one, files, p)
		},
		"plain HTTP":                      testPlainHTTP,
		"a requested resolution":          testResolveNow,
		"a layer of another media type":   testLayerSelector,
		"a filter of tags":                testTagFilter,
		"many HelmOps of one chart":       testMany,
		"signed with a key":               testSignedWithKey,
		"signed without a key":            testSignedWithoutKey,
		"signed with notation":            testSignedWithNotation,
		"a tag moved to unsigned content": testSignatureLost,
	}
	run := map[string]func(*scenario){}
	for name, part := range parts {
		run[name] = func(s *scenario) { part(s, one.in(s), secrets) }
	}
	s.each(run)
	s.step("no credential is in an object or a log", func(s *scenario) {
		s.Expect(len(secrets.all())).To(gomega.BeNumerically(">", len(parts)/2), "secrets to search for")
		s.expectAbsent(secrets.all()...)
	})
}

// testCredentialOrder has credentials in all places where the manager looks for them, each of another user.
func testCredentialOrder(s *scenario, one *workload, files mounted, secrets *plantedSecrets) {
	r := s.startRegistry(registry.Options{})
	secrets.add(r.Password())
	places := []string{"secret", "account", "default"}
	for _, user := range places {
		password, err := r.AddUser(user)
		s.must(err)
		secrets.add(password)
		if user == "default" {
			config, err := registry.DockerConfig(r.Host(), user, password)
			s.must(err)
			s.must(files.credentials.replace(string(config)))
			continue
		}
		s.pullSecret("order-"+user, r.Host(), user, password)
	}
	otherHost := s.pullSecret("order-other-host", "registry.example", "user", "other")
	s.pullingAccount("order", "order-account")
	s.must(files.ca.add(string(r.CA())))
	for name, tt := range map[string]struct {
		secret  *addonsv1.SecretReference
		account string
		user    string
	}{
		"order-all":          {&addonsv1.SecretReference{Name: "order-secret"}, "order", "secret"},
		"order-no-secret":    {nil, "order", "account"},
		"order-other-secret": {otherHost, "order", "account"},
		"order-nothing":      {nil, "", "default"},
		"order-no-match":     {otherHost, "", "default"},
	} {
		s.pushUnique(r, name, "1.0.0")
		helmOp := s.bare(r, name, name, addonsv1.ArtifactReference{Tag: "1.0.0"})
		helmOp.Spec.Source.SecretRef, helmOp.Spec.Source.ImagePullServiceAccountName = tt.secret, tt.account
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, name, 1)
		s.Expect(users(r, name)).To(gomega.And(gomega.Not(gomega.BeEmpty()), gomega.HaveEach(tt.user)), "who pulled for %s",
			name)
	}
	// The author of a custom authority may run the registry: the manager does not send its own credentials.
	s.pushUnique(r, "order-own-ca", "1.0.0")
	helmOp := s.bare(r, "order-own-ca", "order-own-ca", addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.CertSecretRef = s.opaque("order-ca", map[string][]byte{"ca.crt": r.CA()})
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.RegistryAuthenticationFailedReason, "credentials"))
	requests := r.Requests(registry.In("order-own-ca"))
	s.Expect(requests).NotTo(gomega.BeEmpty(), "requests to the registry with its own authority")
	for _, request := range requests {
		s.Expect(request.Authorization).To(gomega.BeEmpty(), "the credential in %+v", request)
	}
}

func (s *scenario) pullingAccount(name string, pullSecrets ...string) {
	s.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	for _, secret := range pullSecrets {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	s.create(account)
}

// testServiceAccount starts without the account, then without the Secret, then with a password that is changed later.
// Each change has an effect at once, although the interval is a day.
func testServiceAccount(s *scenario, one *workload, secrets *plantedSecrets) {
	r := s.startRegistry(registry.Options{Auth: registry.AuthToken})
	s.pushUnique(r, chartRepository, "1.0.0")
	password, err := r.AddUser("robot")
	s.must(err)
	secrets.add(password)
	helmOp := s.bare(r, "account", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.Interval, helmOp.Spec.Source.ImagePullServiceAccountName = never, "account"
	helmOp.Spec.Source.CertSecretRef = s.opaque("account-ca", map[string][]byte{"ca.crt": r.CA()})
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.ReferenceNotFoundReason, "imagePullServiceAccountName", "account"))
	s.Expect(r.Requests()).To(gomega.BeEmpty(), "requests without the account")
	s.pullingAccount("account", "account-missing", "account-credentials")
	s.eventually(helmOp, unresolved(addonsv1.RegistryAuthenticationFailedReason))
	s.pullSecret("account-credentials", r.Host(), "robot", password)
	one.eventuallyReleased(helmOp, releaseNamespace, "account", 1)

	rotated, err := r.AddUser("robot")
	s.must(err)
	secrets.add(rotated)
	config, err := registry.DockerConfig(r.Host(), "robot", rotated)
	s.must(err)
	before := len(granted(r))
	update(s, s.secret("account-credentials"),
		func(secret *corev1.Secret) { secret.Data[corev1.DockerConfigJsonKey] = config })
	s.Eventually(func() int { return len(granted(r)) }).Should(gomega.BeNumerically(">", before),
		"tokens for the new password")
	s.eventually(helmOp, ready(1), resolved)
}

// granted returns the requests for tokens that were granted to a user.
func granted(r *registry.Registry) []registry.TokenRequest {
	var got []registry.TokenRequest
	for _, request := range r.Tokens().Requests() {
		if request.Code == 200 && request.User != "" {
			got = append(got, request)
		}
	}
	return got
}

// testTokenServices has token services at the registry's own host, at another host that the manager's flags trust, and
// at a host that is not trusted. A registry must not make the manager send requests to the third.
func testTokenServices(s *scenario, one *workload, secrets *plantedSecrets) {
	for name, tt := range map[string]struct {
		host    string
		refused bool
	}{
		"token-own": {}, "token-trusted": {host: "localhost"}, "token-foreign": {host: "127.0.0.2", refused: true},
	} {
		r := s.startRegistry(registry.Options{Auth: registry.AuthToken, TokenHost: tt.host})
		secrets.add(r.Password())
		s.pushUnique(r, chartRepository, "1.0.0")
		helmOp := s.noteFrom(r, name, chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
		s.create(helmOp)
		if tt.refused {
			s.eventually(helmOp, unresolved(addonsv1.RegistryAuthenticationFailedReason, "token service"))
			s.Expect(r.Tokens().Requests()).To(gomega.BeEmpty(), "requests to a token service that is not trusted")
			continue
		}
		one.eventuallyReleased(helmOp, releaseNamespace, name, 1)
		s.Expect(users(r, chartRepository)).To(gomega.HaveEach(r.Username()))
		tokenRequests := r.Tokens().Requests()
		s.Expect(tokenRequests).NotTo(gomega.BeEmpty())
		s.Expect(tokenRequests[0].Scopes).To(gomega.Equal([]string{"repository:" + chartRepository + ":pull"}),
			"requests for tokens")
		// A token is used until it expires, or until the manager's trusted authorities change, which happens twice in this
		// test.
		tokens, heads := len(tokenRequests), r.Counts().ManifestHeads
		s.Eventually(func() int { return r.Counts().ManifestHeads }).Should(gomega.BeNumerically(">=", heads+6))
		s.Expect(len(r.Tokens().Requests())).To(gomega.BeNumerically("<=", tokens+2),
			"requests for tokens in six more lookups")
	}
}

// testClientCertificate has a registry that requires a client certificate.
func testClientCertificate(s *scenario, one *workload, secrets *plantedSecrets) {
	r := s.startRegistry(registry.Options{RequireClientCert: true})
	s.pushUnique(r, chartRepository, "1.0.0")
	helmOp := s.noteFrom(r, "mtls", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.RegistryCertificateInvalidReason, "client certificate"))
	pair, err := r.ClientCert("helmop")
	s.must(err)
	secrets.add(string(pair.Key))
	setPair := func(key []byte) {
		update(s, s.secret(helmOp.Spec.Source.CertSecretRef.Name), func(secret *corev1.Secret) {
			secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = pair.Cert, key
		})
	}
	other, err := r.ClientCert("other")
	s.must(err)
	setPair(other.Key)
	s.eventually(helmOp, unresolved(addonsv1.RegistryAuthenticationFailedReason, "key"))
	s.Expect(r.Requests()).To(gomega.BeEmpty(), "requests without a certificate")
	setPair(pair.Key)
	one.eventuallyReleased(helmOp, releaseNamespace, "mtls", 1)
	for _, request := range r.Requests() {
		s.Expect(request.ClientCert).To(gomega.Equal("helmop"))
	}
}

// testProxy has a registry under a name that is reachable through a proxy only, which requires credentials.
func testProxy(s *scenario, one *workload, secrets *plantedSecrets) {
	const host = "registry.helmop.test"
	r := s.startRegistry(registry.Options{Names: []string{host}})
	s.pushUnique(r, chartRepository, "1.0.0")
	password := "proxy-" + r.Password()
	secrets.add(password)
	proxy, err := registry.StartProxy(registry.ProxyOptions{
		Username: "proxied", Password: password, Routes: map[string]string{host + ":443": r.Host()},
	})
	s.must(err)
	s.Cleanup(func() {
		if err := proxy.Stop(); err != nil {
			s.Error(err)
		}
	})
	helmOp := s.noteFrom(r, "proxy", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.URL = "oci://" + host + "/" + chartRepository
	helmOp.Spec.Source.SecretRef = s.pullSecret("proxy-registry", host, r.Username(), r.Password())
	helmOp.Spec.Source.ProxySecretRef = s.opaque("proxy-proxy", map[string][]byte{"address": []byte(proxy.URL())})
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.RegistryAuthenticationFailedReason, "proxy requires credentials"))
	s.Expect(r.Requests()).To(gomega.BeEmpty(), "requests that the proxy let through")
	update(s, s.secret("proxy-proxy"), func(secret *corev1.Secret) {
		secret.Data["username"], secret.Data["password"] = []byte("proxied"), []byte(password)
	})
	one.eventuallyReleased(helmOp, releaseNamespace, "proxy", 1)
	for _, tunnel := range proxy.Tunnels() {
		s.Expect(tunnel.Target).To(gomega.Equal(host + ":443"))
		if tunnel.Code == 200 {
			s.Expect(tunnel.User).To(gomega.Equal("proxied"))
		}
	}
	for _, request := range r.Requests() {
		s.Expect(request.Host).To(gomega.Equal(host))
	}
}

// testMirror stops a registry and configures a mirror in the manager while a HelmOp waits. The HelmOp is not changed.
func testMirror(s *scenario, one *workload, files mounted, secrets *plantedSecrets) {
	mirror, away := s.startRegistry(registry.Options{Implementation: registry.InProcess, Auth: registry.AuthNone}),
		s.startRegistry(registry.Options{})
	secrets.add(away.Password())
	s.must(away.SetFault(registry.Fault{Mode: registry.Down}))
	digest := s.pushUnique(mirror, "copies/of/"+chartRepository, "1.0.0")
	helmOp := s.noteFrom(away, "mirror", chartRepository, addonsv1.ArtifactReference{Semver: "1.x"})
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.RegistryUnreachableReason, away.Host()))

	s.must(files.ca.add(string(mirror.CA())))
	s.must(files.registries.add("[[registry]]\nprefix = \"" + away.Host() + "\"\nlocation = \"" + away.Host() + "\"\n" +
		"[[registry.mirror]]\nlocation = \"" + mirror.Host() + "/copies/of\""))
	one.eventuallyReleased(helmOp, releaseNamespace, "mirror", 1)
	current := s.eventually(helmOp, ready(1), resolved)
	s.Expect(current.Status.Artifact.Digest).To(gomega.Equal(digest))
	s.Expect(current.Status.Artifact.URL).To(gomega.Equal("oci://"+away.Host()+"/"+chartRepository),
		"the URL in the spec")
	s.Expect(mirror.Counts().BlobGets).To(gomega.Equal(1), "pulls from the mirror")
	for _, request := range mirror.Requests() {
		s.Expect(request.Authorization).To(gomega.BeEmpty(), "the registry's password is none of the mirror's business: %+v",
			request)
	}
	s.must(away.SetFault(registry.Fault{}))
	s.pushUnique(mirror, "copies/of/"+chartRepository, "1.1.0")
	one.eventuallyReleased(helmOp, releaseNamespace, "mirror", 2)
	s.Expect(away.Requests()).To(gomega.BeEmpty(), "requests to a registry whose mirror has everything")
}

// testPlainHTTP uses plain HTTP if the source requests it, and only then.
func testPlainHTTP(s *scenario, one *workload, secrets *plantedSecrets) {
	r := s.startRegistry(registry.Options{PlainHTTP: true})
	secrets.add(r.Password())
	s.pushUnique(r, chartRepository, "1.0.0")
	helmOp := s.noteFrom(r, "plain", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.CertSecretRef = nil
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.RegistryCertificateInvalidReason, "insecure"))
	s.Expect(r.Requests()).To(gomega.BeEmpty(), "unexpected requests in plain HTTP")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Insecure = true })
	one.eventuallyReleased(helmOp, releaseNamespace, "plain", 1)
}
