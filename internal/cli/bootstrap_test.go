// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
	command "github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
)

const pullPassword = "the password for pulling"

// bootstrapArgs returns valid arguments without access to the cluster.
func (b *bed) bootstrapArgs(more ...string) []string {
	return append([]string{"bootstrap", "oci", "--url", b.at("helmop:production"), "--cluster-url",
		b.at("fleet:production"),
		"--cluster-path", "clusters/production/"}, more...)
}

func TestBootstrapArguments(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("k/kustomization.yaml", "namespace: other\n")
	b.write("k/pull.json", `{"auths":{"elsewhere.example":{"username":"x","password":"y"}}}`)
	b.ResetCounts()
	for text, args := range map[string][]string{
		"--url is required":         {"bootstrap", "oci", "--cluster-url", b.at("fleet:x")},
		"--cluster-url is required": {"bootstrap", "oci", "--url", b.at("helmop:x")},
		"must have a tag":           {"bootstrap", "oci", "--url", b.at("helmop"), "--cluster-url", b.at("fleet:x")},
		"not a digest": {"bootstrap", "oci", "--url", b.at("helmop@sha256:" + strings.Repeat("a", 64)),
			"--cluster-url", b.at("fleet:x")},
		"does not start with": {"bootstrap", "oci", "--url", "registry/helmop:x",
			"--cluster-url", b.at("fleet:x")},
		"--export and --push-only cannot be used together": b.bootstrapArgs("--export", "--push-only"),
		"--password-stdin and --pull-password-stdin cannot": b.bootstrapArgs("-u", "a", "--password-stdin", "--pull-username",
			"b", "--pull-password-stdin"),
		"--password requires --username":           b.bootstrapArgs("--password", "x"),
		"--username requires --password":           b.bootstrapArgs("--username", "x"),
		"--pull-username requires --pull-password": b.bootstrapArgs("--pull-username", "x"),
		"--pull-password requires --pull-username": b.bootstrapArgs("--pull-password", "x"),
		"use aws, azure or gcp":                    b.bootstrapArgs("--provider", "cumulus"),
		"--provider cannot be used with --pull-username": b.bootstrapArgs("--provider", "aws", "--pull-username", "x",
			"--pull-password", "y"),
		"--pull-username or --pull-registry-config": b.bootstrapArgs("--provider", "aws", "--pull-registry-config",
			b.path("k/kustomization.yaml")),
		"--provider and --ca-file cannot be used together": b.bootstrapArgs("--provider", "aws"),
		"--pull-registry-config cannot be used together": b.bootstrapArgs("--pull-username", "x", "--pull-password", "y",
			"--pull-registry-config", b.path("k/pull.json")),
		"has no username and password for": b.bootstrapArgs("--pull-registry-config", b.path("k/pull.json")),
		"--pull-registry-config: stat":     b.bootstrapArgs("--pull-registry-config", b.path("k/none.json")),
		"--verify-key: ":                   b.bootstrapArgs("--verify-key", b.path("k/kustomization.yaml")),
		"--sign requires --key":            b.bootstrapArgs("--sign"),
		"never sent unencrypted":           b.bootstrapArgs("--provider", "aws", "--plain-http"),
		"--interval must be at least 1s":   b.bootstrapArgs("--interval", "1ms"),
		"--output \"xml\" is unknown":      b.bootstrapArgs("-o", "xml"),
		"must neither remove nor rename it": b.bootstrapArgs("--kustomization",
			b.path("k/kustomization.yaml")),
		"is not a file":             b.bootstrapArgs("--kustomization", b.path("k/other.yaml")),
		"is not an image reference": b.bootstrapArgs("--image", "@sha256:a"),
	} {
		b.fails(exit.Usage, text, args...)
	}
	if total := b.Counts().Total(); total != 0 {
		t.Errorf("%d requests", total)
	}
}

func TestBootstrapExport(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("k/mine.yaml", "nameSuffix: \"\"\nresources: [more.yaml]\n")
	b.write("k/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: helmop-system}\n")
	b.ResetCounts()
	args := b.bootstrapArgs("--export", "--pull-username", "reader", "--pull-password", pullPassword, "--username",
		"writer", "--password", "write-password",
		"--kustomization", b.path("k/mine.yaml"))
	first, second := b.ok(args...), b.ok(args...)
	if first != second {
		t.Error("it is not the same twice")
	}
	for _, part := range []string{"kind: CustomResourceDefinition", "name: more", "name: helmop-pull",
		"name: helmop-registry-ca", "path: clusters/production\n", "deletionPolicy: Orphan"} {
		if !strings.Contains(first, part) {
			t.Errorf("it has no %q", part)
		}
	}
	if strings.Contains(first, "writer") || strings.Contains(first, "write-password") {
		t.Error("it has the credential for pushing")
	}
	if open := b.ok(b.bootstrapArgs("--export")...); strings.Contains(open, "helmop-pull") {
		t.Error("there is a credential without a flag for it")
	}
	// The export does not read the cluster, which may require signatures. So it prints a warning.
	const dropped = "warning: without --verify-key"
	_, public := newKey(t)
	b.write("cosign.pub", string(public))
	if got := b.run(b.bootstrapArgs("--export")...); !strings.Contains(got.err, dropped) ||
		strings.Contains(got.out, dropped) {
		t.Errorf("without a key: %s", got.err)
	}
	if got := b.run(b.bootstrapArgs("--export", "--verify-key", b.path("cosign.pub"))...); got.code != exit.Done ||
		got.err != "" {
		t.Errorf("with a key: %+v", got)
	}
	for path, want := range map[string]bool{"": true, ".": false, "a": false} {
		got := b.run("bootstrap", "oci", "--url", b.at("helmop:x"), "--cluster-url", b.at("fleet:x"), "--export",
			"--cluster-path", path)
		if warns := strings.Contains(got.err, "warning: without --cluster-path"); warns != want ||
			strings.Contains(got.out, "path: a\n") != (path == "a") {
			t.Errorf("of the folder %q: %s", path, got.err)
		}
	}
	if total := b.Counts().Total(); total != 0 {
		t.Errorf("%d requests", total)
	}
}

// okBare runs a command that needs no registry. The command must succeed.
func (b *bed) okBare(args ...string) string {
	b.Helper()
	got := b.runPlain("", args...)
	if got.code != exit.Done {
		b.Fatalf("%q: exit code %d: %s", args, got.code, got.err)
	}
	return got.out
}

// keptCredentials returns the credentials for the cluster, as "name:password" by registry.
func keptCredentials(t *testing.T, export string) map[string]string {
	t.Helper()
	var config struct {
		Auths map[string]struct{ Auth []byte }
	}
	for part := range strings.SplitSeq(export, "---\n") {
		var secret corev1.Secret
		if err := yaml.Unmarshal([]byte(part), &secret); err != nil {
			t.Fatal(err)
		}
		if secret.Name == bootstrap.PullSecret {
			if err := json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept := map[string]string{}
	for name, one := range config.Auths {
		kept[name] = string(one.Auth)
	}
	return kept
}

// TestBootstrapPullsFromDockerHub checks that the credential for Docker Hub is found. Docker stores it under a special
// address.
func TestBootstrapPullsFromDockerHub(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"https://index.docker.io/v1/", "docker.io"} {
		b := newBed(t)
		b.write("pull.json", `{"auths":{"`+key+`":{"username":"a","password":"the-password"}}}`)
		kept := keptCredentials(t, b.okBare("bootstrap", "oci", "--url", "oci://docker.io/me/helmop:x", "--cluster-url",
			"oci://docker.io/me/fleet:x", "--export",
			"--pull-registry-config", b.path("pull.json")))
		if want := map[string]string{"docker.io": "a:the-password"}; !maps.Equal(kept, want) {
			t.Errorf("%s: %q", key, kept)
		}
	}
}

// TestBootstrapExportsHowTheClusterPulls exports with one credential for each registry, and without stored credentials.
func TestBootstrapExportsHowTheClusterPulls(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("pull.json", `{"auths":{"one.example":{"username":"a","password":"first-password"},"two.example":{"auth":"`+
		base64.StdEncoding.EncodeToString([]byte("b:second-password"))+
		`"},"three.example":{"username":"c","password":"third-password"}},"credsStore":"none"}`)
	args := []string{"bootstrap", "oci", "--url", "oci://one.example/helmop:x", "--cluster-url",
		"oci://two.example/fleet:x", "--export"}
	kept := keptCredentials(t, b.okBare(append(args, "--pull-registry-config", b.path("pull.json"))...))
	if want := map[string]string{"one.example": "a:first-password", "two.example": "b:second-password"}; !maps.Equal(kept,
		want) {
		t.Errorf("%q", kept)
	}
	cloud := b.okBare(append(args, "--provider", "gcp")...)
	if strings.Count(cloud, "provider: gcp\n") != 2 || strings.Contains(cloud, bootstrap.PullSecret) {
		t.Error("with the identity at a cloud, a credential is kept, or the identity is not used")
	}
	if paused := b.okBare(append(args, "--pause")...); strings.Count(paused, "paused: true\n") != 1 {
		t.Error("not the desired state alone is paused")
	}
}

func TestBootstrapPushesOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	args := []string{"bootstrap", "oci", "--url", b.at("helmop:production"), "--push-only", "-o", "json"}
	first := decode[command.Result](t, b.ok(args...))
	if !first.Provider.Pushed || first.State != nil || len(first.Provider.Tags) != 2 ||
		first.Provider.Tags[1] != "production" {
		t.Errorf("%+v", first)
	}
	b.ResetCounts()
	second := decode[command.Result](t, b.ok(args...))
	if writes := b.Counts().Writes; writes != 0 || second.Provider.Pushed ||
		second.Provider.Reference != first.Provider.Reference {
		t.Errorf("%d writes: %+v", writes, second)
	}
	third := decode[command.Result](t, b.ok(append(args, "--image", "registry.example/other:1")...))
	if !third.Provider.Pushed || third.Provider.Reference == first.Provider.Reference ||
		third.Provider.Tags[0] == first.Provider.Tags[0] {
		t.Errorf("%+v", third)
	}
	// The tag with the digest is never moved.
	b.ok("tag", b.at("helmop:"+third.Provider.Tags[0]), first.Provider.Tags[0])
	b.fails(exit.Failed, "was moved to another artifact", args...)
	out := b.ok("pull", b.at("helmop:production"), "--dir", b.path("pulled"))
	if !strings.Contains(out, bootstrap.ComponentsFile) {
		t.Errorf("pulled %s", out)
	}
}

func TestBootstrapKeepsTheCredentialForPushingOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	kubeconfig := []string{"--kubeconfig", b.path("none"), "--allow-empty-state"}
	b.ResetCounts()
	b.fails(exit.Usage, "can push to",
		b.bootstrapArgs(append(kubeconfig, "--pull-username", b.Username(), "--pull-password", b.Password())...)...)
	if b.run("list", b.at("helmop")).code != exit.NotFound {
		t.Error("something was pushed")
	}
	// The registry has no anonymous access.
	b.fails(exit.Usage, "cannot be pulled anonymously", b.bootstrapArgs(kubeconfig...)...)
	got := b.run(b.bootstrapArgs(append(kubeconfig, "--pull-username", b.Username(), "--pull-password", b.Password(),
		"--allow-push-with-pull-credential")...)...)
	if got.code != exit.Failed || !strings.Contains(got.err, "warning: ") ||
		!strings.Contains(got.err, "reading the kubeconfig of the management cluster") {
		t.Errorf("%+v", got)
	}
	b.fails(exit.Denied, "pulling ",
		b.bootstrapArgs(append(kubeconfig, "--pull-username", "reader", "--pull-password", pullPassword)...)...)
}
