// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"golang.org/x/oauth2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	awsHost    = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
	awsToken   = "sts.eu-west-1.amazonaws.com"
	awsECR     = "api.ecr.eu-west-1.amazonaws.com"
	awsPublic  = "api.ecr-public.us-east-1.amazonaws.com"
	azureHost  = "demo.azurecr.io"
	azureLogin = "login.microsoftonline.com"
	azureIMDS  = "169.254.169.254"
	gcpHost    = "europe-west1-docker.pkg.dev"
	tenant     = "11111111-2222-3333-4444-555555555555"

	// childRequest is the environment variable that makes this test program a child that logs in: the SDKs and net/http
	// read the environment of their process, and some of it only once.
	childRequest = "HELMOP_TEST_CLOUD_LOGIN"
	resultPrefix = "RESULT "
)

// expiry is the time of expiry in the responses of the fake providers.
var expiry = time.Unix(4_000_000_000, 0).UTC()

type loginRequest struct {
	Provider, Repository string
	Timeout              time.Duration
}

type loginResult struct {
	Username, Password string
	Expires            time.Time
	Error, Kind        string
}

var kinds = map[string]error{
	"unauthorized": ocierr.ErrUnauthorized, "unreachable": ocierr.ErrUnreachable,
	"invalid access": ocierr.ErrInvalidAccess,
}

// TestLoginChild is the child process of TestLogin.
func TestLoginChild(t *testing.T) {
	var request loginRequest
	if text := os.Getenv(childRequest); text == "" {
		t.Skip("runs as a child of TestLogin only")
	} else if err := json.Unmarshal([]byte(text), &request); err != nil {
		t.Fatal(err)
	}
	credential, err := New(Options{Timeout: request.Timeout}).Login(t.Context(), request.Provider, request.Repository)
	result := loginResult{Username: credential.Username, Password: credential.Password, Expires: credential.Expires}
	if err != nil {
		result.Error = err.Error()
		for name, kind := range kinds {
			if errors.Is(err, kind) {
				result.Kind = name
			}
		}
	}
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(resultPrefix + string(data))
}

// login runs a login in a child whose environment directs it to the fake cloud.
func (f *fakeCloud) login(request loginRequest, env map[string]string) loginResult {
	f.t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		f.t.Fatal(err)
	}
	child := exec.CommandContext(f.t.Context(), os.Args[0], "-test.run=^TestLoginChild$", "-test.v")
	child.Env = append(f.environment(env), childRequest+"="+string(text))
	out, err := child.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	_, line, found := bytes.Cut(out, []byte(resultPrefix))
	var result loginResult
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if err := json.Unmarshal(line, &result); !found || err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	return result
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// jwt returns a token whose claims are read without its signature.
func jwt(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + ".c2lnbmF0dXJl"
}

// irsa returns the environment that EKS sets in a Pod with a role.
func (f *fakeCloud) irsa() map[string]string {
	f.on(awsToken, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != "planted-web-token" ||
			r.FormValue("RoleArn") != "arn:aws:iam::123456789012:role/helmop" {
			f.t.Errorf("request of STS: %v", r.Form)
		}
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>AKIAIRSA</AccessKeyId><SecretAccessKey>planted-secret</SecretAccessKey><SessionToken>planted-session</SessionToken><Expiration>%s</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, expiry.Format(time.RFC3339))
	})
	return map[string]string{"AWS_REGION": "eu-west-1", "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/helmop",
		"AWS_WEB_IDENTITY_TOKEN_FILE": f.file("planted-web-token")}
}

// ecr simulates ECR for requests with the access key.
func (f *fakeCloud) ecr(host, accessKey string) {
	token := base64.StdEncoding.EncodeToString([]byte("AWS:planted-password"))
	data := fmt.Sprintf(`{"authorizationToken":%q,"expiresAt":%d}`, token, expiry.Unix())
	if host == awsECR {
		data = "[" + data + "]"
	}
	f.on(host, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+accessKey+"/") {
			f.t.Errorf("%s was signed with %s", host, r.Header.Get("Authorization"))
		}
		answer(http.StatusOK, `{"authorizationData":`+data+`}`)(w, r)
	})
}

func awsCredentials(accessKey string) string {
	return fmt.Sprintf(`{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":"planted-secret","Token":"planted-session","Expiration":%q}`,
		accessKey, expiry.Format(time.RFC3339))
}

// workloadIdentity returns the environment that AKS sets in a Pod. It simulates Microsoft's identity platform with the
// responses of the handler.
func (f *fakeCloud) workloadIdentity(token http.HandlerFunc) map[string]string {
	f.on(azureLogin, func(w http.ResponseWriter, r *http.Request) {
		base := "https://" + azureLogin + "/" + tenant
		switch {
		case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
			answer(http.StatusOK, `{"tenant_discovery_endpoint":"`+base+
				`/v2.0/.well-known/openid-configuration","metadata":[{"preferred_network":"login.microsoftonline.com","preferred_cache":"login.windows.net","aliases":["login.microsoftonline.com"]}]}`)(w, r)
		case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
			answer(http.StatusOK, `{"authorization_endpoint":"`+base+`/oauth2/v2.0/authorize","token_endpoint":"`+base+
				`/oauth2/v2.0/token","issuer":"`+base+`/v2.0"}`)(w, r)
		default:
			if r.FormValue("client_assertion") != "planted-assertion" ||
				!strings.HasPrefix(r.FormValue("scope"), "https://containerregistry.azure.net/.default") {
				f.t.Errorf("token request: %v", r.Form)
			}
			token(w, r)
		}
	})
	return map[string]string{"AZURE_CLIENT_ID": "66666666-7777-8888-9999-000000000000", "AZURE_TENANT_ID": tenant,
		"AZURE_AUTHORITY_HOST": "https://" + azureLogin + "/", "AZURE_FEDERATED_TOKEN_FILE": f.file("planted-assertion")}
}

const azureAccess = `{"token_type":"Bearer","expires_in":3600,"expires_on":4000000000,"resource":"x","access_token":"planted-aad-token"}`

// acr exchanges the access token for a token of the registry.
func (f *fakeCloud) acr(body string) {
	f.on(azureHost, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/oauth2/exchange" || r.FormValue("access_token") != "planted-aad-token" ||
			r.FormValue("service") != azureHost {
			f.t.Errorf("request of ACR: %s %v", r.URL, r.Form)
		}
		answer(http.StatusOK, body)(w, r)
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()
	acrToken := jwt(fmt.Sprintf(`{"exp":%d}`, expiry.Unix()))
	for _, tc := range []struct {
		name    string
		request loginRequest
		// cloud sets the responses of the cloud and returns the environment of the Pod.
		cloud          func(f *fakeCloud) map[string]string
		user, password string
		expires        time.Time // zero is any time from now on
		kind, detail   string
	}{
		{name: "AWS IRSA", request: loginRequest{Provider: "aws", Repository: awsHost + "/charts/demo"}, user: "AWS",
			password: "planted-password", expires: expiry,
			cloud: func(f *fakeCloud) map[string]string { f.ecr(awsECR, "AKIAIRSA"); return f.irsa() }},
		{name: "AWS with a port", request: loginRequest{Provider: "aws", Repository: awsHost + ":443/charts/demo"},
			user: "AWS", password: "planted-password", expires: expiry,
			cloud: func(f *fakeCloud) map[string]string { f.ecr(awsECR, "AKIAIRSA"); return f.irsa() }},
		{name: "AWS Pod Identity, public registry", request: loginRequest{Provider: "aws", Repository: "public.ecr.aws/x/y"},
			user: "AWS", password: "planted-password", expires: expiry,
			cloud: func(f *fakeCloud) map[string]string {
				f.ecr(awsPublic, "AKIAPOD")
				f.on("metadata", func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "planted-pod-token" {
						f.t.Errorf("request of the agent: %v", r.Header)
					}
					answer(http.StatusOK, awsCredentials("AKIAPOD"))(w, r)
				})
				return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://METADATA/v1/credentials",
					"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f.file("planted-pod-token")}
			}},
		{name: "AWS instance role", request: loginRequest{Provider: "aws", Repository: awsHost + "/charts/demo"}, user: "AWS",
			password: "planted-password", expires: expiry,
			cloud: func(f *fakeCloud) map[string]string {
				f.ecr(awsECR, "AKIANODE")
				f.on("metadata", func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == http.MethodPut:
						w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
						fmt.Fprint(w, "planted-imds-token")
					case strings.HasSuffix(r.URL.Path, "/node-role"):
						fmt.Fprint(w, awsCredentials("AKIANODE"))
					default:
						fmt.Fprint(w, "node-role")
					}
				})
				return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://METADATA"}
			}},
		{name: "AWS denies", request: loginRequest{Provider: "aws", Repository: awsHost + "/x"}, kind: "unauthorized",
			detail: "refused, AccessDeniedException, HTTP 400; check that the manager's Pod has an IAM role",
			cloud: func(f *fakeCloud) map[string]string {
				f.on(awsECR, answer(http.StatusBadRequest, `{"__type":"AccessDeniedException","message":"planted-message"}`))
				return f.irsa()
			}},
		{name: "AWS answers with nothing", request: loginRequest{Provider: "aws", Repository: awsHost + "/x"},
			kind: "unauthorized", detail: "no authorization data",
			cloud: func(f *fakeCloud) map[string]string { f.on(awsECR, answer(http.StatusOK, `{}`)); return f.irsa() }},
		{name: "AWS answers with an empty password", request: loginRequest{Provider: "aws", Repository: awsHost + "/x"},
			kind: "unauthorized", detail: "incomplete",
			cloud: func(f *fakeCloud) map[string]string {
				f.on(awsECR, answer(http.StatusOK,
					`{"authorizationData":[{"authorizationToken":"QVdTOg==","expiresAt":4000000000}]}`))
				return f.irsa()
			}},
		{name: "AWS without any identity", request: loginRequest{Provider: "aws", Repository: awsHost + "/x"},
			kind: "unauthorized", detail: "there is no identity",
			cloud: func(f *fakeCloud) map[string]string {
				f.on("metadata", answer(http.StatusNotFound, "planted-text"))
				return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://METADATA"}
			}},
		{name: "AWS without the token's file", request: loginRequest{Provider: "aws", Repository: awsHost + "/x"},
			kind: "unauthorized", detail: "open /nowhere/token: no such file or directory",
			cloud: func(f *fakeCloud) map[string]string {
				env := f.irsa()
				env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/nowhere/token"
				return env
			}},

		{name: "Azure workload identity", request: loginRequest{Provider: "azure", Repository: azureHost + "/charts/demo"},
			user: "00000000-0000-0000-0000-000000000000", password: acrToken, expires: expiry,
			cloud: func(f *fakeCloud) map[string]string {
				f.acr(`{"refresh_token":"` + acrToken + `"}`)
				return f.workloadIdentity(answer(http.StatusOK, azureAccess))
			}},
		{name: "Azure managed identity", request: loginRequest{Provider: "azure", Repository: azureHost + "/charts/demo"},
			user: "00000000-0000-0000-0000-000000000000", password: acrToken, expires: expiry,
			cloud: func(f *fakeCloud) map[string]string {
				f.acr(`{"refresh_token":"` + acrToken + `"}`)
				f.on(azureIMDS, answer(http.StatusOK, azureAccess))
				return nil
			}},
		{name: "Azure denies", request: loginRequest{Provider: "azure", Repository: azureHost + "/x"}, kind: "unauthorized",
			detail: "refused, AADSTS700016, HTTP 400; check that the manager's Pod has a workload identity",
			cloud: func(f *fakeCloud) map[string]string {
				return f.workloadIdentity(answer(http.StatusBadRequest,
					`{"error":"unauthorized_client","error_description":"AADSTS700016: planted-message","error_codes":[700016]}`))
			}},
		{name: "ACR denies", request: loginRequest{Provider: "azure", Repository: azureHost + "/x"}, kind: "unauthorized",
			detail: "HTTP 401",
			cloud: func(f *fakeCloud) map[string]string {
				f.on(azureHost, answer(http.StatusUnauthorized, `{"errors":[{"code":"UNAUTHORIZED","message":"planted-message"}]}`))
				return f.workloadIdentity(answer(http.StatusOK, azureAccess))
			}},
		{name: "ACR answers with nothing", request: loginRequest{Provider: "azure", Repository: azureHost + "/x"},
			kind: "unauthorized", detail: "incomplete",
			cloud: func(f *fakeCloud) map[string]string {
				f.acr(`{}`)
				return f.workloadIdentity(answer(http.StatusOK, azureAccess))
			}},
		{name: "ACR does not say when the token ends", request: loginRequest{Provider: "azure", Repository: azureHost + "/x"},
			kind: "unauthorized", detail: "incomplete",
			cloud: func(f *fakeCloud) map[string]string {
				f.acr(`{"refresh_token":"` + jwt(`{}`) + `"}`)
				return f.workloadIdentity(answer(http.StatusOK, azureAccess))
			}},

		{name: "Google Cloud", request: loginRequest{Provider: "gcp", Repository: gcpHost + "/project/charts/demo"},
			user: "oauth2accesstoken", password: "planted-gcp-token",
			cloud: func(f *fakeCloud) map[string]string {
				f.on("metadata", func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/project-id") { // a request that checks whether this is Google Cloud
						fmt.Fprint(w, "project")
						return
					}
					if r.Header.Get("Metadata-Flavor") != "Google" ||
						!strings.HasSuffix(r.URL.Path, "/service-accounts/default/token") {
						f.t.Errorf("request of the metadata server: %s %v", r.URL, r.Header)
					}
					answer(http.StatusOK, `{"access_token":"planted-gcp-token","expires_in":3600,"token_type":"Bearer"}`)(w, r)
				})
				return map[string]string{"GCE_METADATA_HOST": "METADATA"}
			}},
		{name: "Google Cloud denies", request: loginRequest{Provider: "gcp", Repository: "gcr.io/project/demo"},
			kind: "unauthorized", detail: "HTTP 403; check that the service account of the manager's Pod",
			cloud: func(f *fakeCloud) map[string]string {
				f.on("metadata", answer(http.StatusForbidden, "planted-text"))
				return map[string]string{"GCE_METADATA_HOST": "METADATA"}
			}},
		{name: "Google Cloud hangs", request: loginRequest{Provider: "gcp", Repository: gcpHost + "/x/y",
			Timeout: time.Second}, kind: "unreachable", detail: "did not respond in time",
			cloud: func(f *fakeCloud) map[string]string {
				f.on("metadata", f.hang)
				return map[string]string{"GCE_METADATA_HOST": "METADATA"}
			}},
		{name: "AWS hangs", request: loginRequest{Provider: "aws", Repository: awsHost + "/x/y", Timeout: time.Second},
			kind: "unreachable", detail: "did not respond in time",
			cloud: func(f *fakeCloud) map[string]string {
				f.on(awsECR, f.hang)
				return f.irsa()
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCloud(t)
			env := tc.cloud(f)
			started := time.Now()
			got := f.login(tc.request, env)
			if tc.kind != "" {
				if got.Kind != tc.kind || !strings.Contains(got.Error, tc.detail) {
					t.Errorf("error = %q of kind %q, want %q of kind %q; asked were %q", got.Error, got.Kind, tc.detail, tc.kind,
						f.requests())
				}
				if strings.Contains(got.Error, "planted") || strings.Contains(got.Error, acrToken) || len(got.Error) > 600 {
					t.Errorf("the error holds a secret, or what the provider wrote: %s", got.Error)
				}
				if got.Username != "" || got.Password != "" {
					t.Error("a credential beside an error")
				}
				return
			}
			if got.Error != "" || got.Username != tc.user || got.Password != tc.password {
				t.Errorf("login = %+v; asked were %q", got, f.requests())
			}
			if tc.expires.IsZero() && got.Expires.Before(started) || !tc.expires.IsZero() && !got.Expires.Equal(tc.expires) {
				t.Errorf("expires at %s, want %s", got.Expires, tc.expires)
			}
		})
	}
}

// TestLoginRefusesForeignRegistries has no network: a request would fail.
func TestLoginRefusesForeignRegistries(t *testing.T) {
	t.Parallel()
	l := New(Options{})
	for provider, repositories := range map[string][]string{
		"aws": {
			gcpHost + "/x", "ghcr.io/x/y", "evil/" + awsHost, awsHost + ".evil.example/x", "evil.example/" + awsHost,
			"evil" + awsHost + "/x",
			awsHost + ":8443/x", "public.ecr.aws.evil.example/x", "", "/", awsHost + "@evil.example/x", awsHost + "\n/x",
		},
		"azure": {
			awsHost + "/x", "azurecr.io/x", "demo.azurecr.io.evil.example/x", "evil.example/demo.azurecr.io",
			"demo.azurecr.io:5000/x", "demoazurecr.io/x",
		},
		"gcp": {
			azureHost + "/x", "evil-gcr.io/x", "gcr.io.evil.example/x", "evil.example/gcr.io", "docker.pkg.dev/x", "gcr.io:80/x",
			"evil/gcr.io/x",
		},
		"generic": {awsHost + "/x"}, "": {awsHost + "/x"}, "AWS": {awsHost + "/x"},
	} {
		for _, repository := range repositories {
			credential, err := l.Login(t.Context(), provider, repository)
			if !errors.Is(err, ocierr.ErrInvalidAccess) || credential != (credentials.CloudCredential{}) {
				t.Errorf("%s for %q: %+v, %v; want ErrInvalidAccess", provider, repository, credential, err)
			}
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	started := make(chan struct{})
	go func() { <-started; cancel() }()
	_, err := within(ctx, func() (credentials.CloudCredential, error) {
		close(started)
		<-release // an SDK that ignores contexts
		return credentials.CloudCredential{Username: "u"}, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	if got := explain(ctx, "aws", "hint", err); !errors.Is(got, context.Canceled) ||
		errors.Is(got, ocierr.ErrUnreachable) {
		t.Errorf("explained as %v, want context.Canceled alone", got)
	}
	var none *credentials.CloudCredential
	if got, err := within(t.Context(), func() (credentials.CloudCredential, error) { return *none, nil }); !errors.Is(err,
		errIncomplete) || got.Username != "" {
		t.Errorf("after a panic: %+v, %v", got, err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	around := func(err error) error {
		return fmt.Errorf("failed to get token: %w", &url.Error{Op: "Post", URL: "https://host/?token=planted", Err: err})
	}
	for _, tc := range []struct {
		name   string
		err    error
		kind   error
		detail string
	}{
		{"refused", around(refused), ocierr.ErrUnreachable, "cannot be reached: dial tcp: connection refused"},
		{"unknown host", around(&net.DNSError{Err: "no such host", Name: "sts.example", IsNotFound: true}),
			ocierr.ErrUnreachable, "lookup sts.example: no such host"},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), ocierr.ErrUnreachable, "did not respond in time"},
		{"slow", around(os.ErrDeadlineExceeded), ocierr.ErrUnreachable, "did not respond in time"},
		{"certificate", around(x509.UnknownAuthorityError{}), ocierr.ErrUnauthorized, "unknown authority"},
		{"code that is none", &smithy.GenericAPIError{Code: "planted code!", Message: "planted"}, ocierr.ErrUnauthorized,
			"refused; hint"},
		{"oauth", &oauth2.RetrieveError{Response: &http.Response{StatusCode: http.StatusBadRequest},
			ErrorCode: "invalid_grant", Body: []byte("planted")}, ocierr.ErrUnauthorized, "refused, invalid_grant, HTTP 400"},
	} {
		got := explain(t.Context(), "aws", "hint", tc.err)
		if !errors.Is(got, tc.kind) || !strings.Contains(got.Error(), tc.detail) {
			t.Errorf("%s: %v, want %v with %q", tc.name, got, tc.kind, tc.detail)
		}
		if strings.Contains(got.Error(), "planted") {
			t.Errorf("%s: the error holds what the provider wrote: %v", tc.name, got)
		}
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	token := jwt(`{"sub":"planted","aud":"planted-planted-planted-planted"}`)
	missing := "open /var/run/secrets/eks.amazonaws.com/serviceaccount/token: no such file or directory"
	for text, want := range map[string]string{
		missing: missing,
		"status 400 of https://user:planted@host/path?token=planted: bad": "status 400 of <url> bad",
		"refused " + token + "\nRESPONSE planted":                         "refused …",
		strings.Repeat("long ", 100) + "cause": "…" +
			strings.Repeat("long ", 39) + "cause",
		"\xff\xfe": "?",
	} {
		if got := reason(errors.New(text)); got != want {
			t.Errorf("reason(%q) = %q, want %q", text, got, want)
		}
	}
}
