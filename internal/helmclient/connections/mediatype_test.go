// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// answering returns a transport to a server that answers each request with a status, a media type and a text.
func answering(t *testing.T, status int, mediaType, text string) (*boundedTransport, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if mediaType != "" {
			w.Header().Set("Content-Type", mediaType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return &boundedTransport{base: http.DefaultTransport, parent: t.Context(), timeout: time.Minute,
		bytes: bytebudget.New(16 << 20), owner: ownerOf("a/b"), metersWatches: true}, server.URL
}

// TestMediaTypesOfResponses checks that a server cannot choose a form that the memory budget does not measure.
func TestMediaTypesOfResponses(t *testing.T) {
	t.Parallel()
	const object, binary = `{"kind":"Status"}`, "k8s\x00"
	dense := `{"a":[` + strings.Repeat("{},", 1<<18) + "0]}"
	for name, tc := range map[string]struct {
		status                  int
		mediaType, accept, path string
		text                    string
		want                    error
	}{
		"JSON":              {200, "application/json", "", "", object, nil},
		"white space":       {200, "application/json", "", "", "\n " + object, nil},
		"parameters":        {200, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "", "", object, nil},
		"capital letters":   {200, "Application/JSON", "", "", dense, errTooMuchToDecode},
		"hidden protobuf":   {200, "application/json; x=protobuf", "", "", dense, errTooMuchToDecode},
		"protobuf":          {200, runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf, "", binary, nil},
		"unwanted protobuf": {200, runtime.ContentTypeProtobuf, "application/json", "", binary, helmerr.ErrUnreachable},
		"JSON as protobuf":  {200, runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf, "", object, errNotAnObject},
		"YAML":              {200, "application/yaml", "", "", "a: b", helmerr.ErrUnreachable},
		"YAML as JSON":      {200, "application/json", "", "", "a: b", errNotAnObject},
		"CBOR":              {200, "application/cbor", "", "", "\xd9\xd9\xf7\xa0", helmerr.ErrUnreachable},
		"no type":           {200, "", "", "", object, helmerr.ErrUnreachable},
		"invalid type":      {200, "json;;", "", "", object, helmerr.ErrUnreachable},
		"login page":        {200, "text/html", "", "", "<html>", helmerr.ErrUnreachable},
		"no body":           {200, "", "", "", "", nil},
		"no content":        {204, "", "", "", "", nil},
		"log":               {200, "text/plain", "", "/api/v1/namespaces/a/pods/b/log", "a line", nil},
		"object named log":  {200, "application/yaml", "", "/api/v1/namespaces/a/pods/log", "a: b", helmerr.ErrUnreachable},
		"OpenAPI":           {200, "application/octet-stream", "application/" + openAPIForm + ".spec.v2@v1.0+protobuf", "", "a", nil},
		"error in JSON":     {403, "application/json", "", "", object, nil},
		"message in JSON":   {403, "application/json", "", "", `"Forbidden"`, nil},
		"protobuf events": {200, runtime.ContentTypeProtobuf + ";stream=watch", runtime.ContentTypeProtobuf, "/a?watch=true",
			"\x00\x00\x00\x04" + binary, nil},
		"dense error":        {500, "application/json", "", "", dense, errTooMuchToDecode},
		"error without type": {502, "", "", "", "Bad Gateway", nil},
		"error as a page":    {503, "text/html", "", "", "<html>", nil},
		"long error":         {500, "application/yaml", "", "", strings.Repeat("a", 1<<20), nil},
		"failed watch":       {500, "application/json", "", "/a?watch=true", dense, errTooMuchToDecode},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport, address := answering(t, tc.status, tc.mediaType, tc.text)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", tc.accept)
			resp, err := transport.RoundTrip(req)
			got := ""
			if err == nil {
				var data []byte
				data, err = io.ReadAll(resp.Body)
				got = string(data)
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if !errors.Is(err, tc.want) && !errors.Is(helmerr.Classify(err), tc.want) {
				t.Errorf("got %v", err)
			}
			if want := tc.text[:min(len(tc.text), maxErrorText)]; tc.want == nil && got != want {
				t.Errorf("got %.100q", got)
			}
		})
	}
}

// TestActionsMeterWatches checks that an event for a hook takes memory from the budget. Others who watch have their own
// limits.
func TestActionsMeterWatches(t *testing.T) {
	t.Parallel()
	event := `{"type":"ADDED","object":{"a":[` + strings.Repeat("{},", 1<<18) + "0]}}"
	for name, want := range map[string]error{"action": errTooMuchToDecode, "other": nil} {
		transport, address := answering(t, http.StatusOK, "application/json", event)
		conn, err := NewCluster("a/b", &rest.Config{Host: address}, sharedState{bytes: transport.bytes,
			library: newKindsLibrary()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.close)
		config := conn.Own.RestConfig(t.Context())
		if name == "action" {
			config = conn.Own.ActionConfig(t.Context())
		}
		if err := read(t.Context(), t, config.Transport, address+"/a?watch=true"); !errors.Is(err, want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestClosedWatchReturnsMemory checks that a watch of an action that is closed during a read returns its memory.
func TestClosedWatchReturnsMemory(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"a":"`+strings.Repeat("a", 2*bytebudget.Free))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	transport := &boundedTransport{base: http.DefaultTransport, parent: t.Context(), timeout: time.Minute,
		bytes: bytebudget.New(16 << 20), owner: ownerOf("a/b"), metersWatches: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/a?watch=true", nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	resp, err := transport.RoundTrip(req)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	read := make(chan error)
	go func() {
		_, err := io.ReadAll(resp.Body)
		read <- err
	}()
	g.Eventually(transport.bytes.InUse).Should(gomega.BeNumerically(">", 0))
	g.Expect(resp.Body.Close()).To(gomega.Succeed())
	g.Eventually(read).Should(gomega.Receive(gomega.HaveOccurred()))
	g.Eventually(transport.bytes.InUse).Should(gomega.BeZero())
}

// TestClientsDoNotDecodeYAML checks that neither an object nor an error in YAML reaches the decoders of the clients.
func TestClientsDoNotDecodeYAML(t *testing.T) {
	t.Parallel()
	const alias = "a: &a [b, b]\nc: [*a, *a]\nkind: Status\napiVersion: v1\nreason: NotFound\ncode: 404\n"
	for _, mediaType := range []string{"application/yaml", "application/json", "text/plain", ""} {
		for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
			transport, address := answering(t, status, mediaType, alias+strings.Repeat("#", maxErrorText))
			config := &rest.Config{Host: address, Transport: transport}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = client.AppsV1().RESTClient().Get().Name("a").Resource("b").DoRaw(context.Background()); err == nil {
				t.Errorf("%q: no error", mediaType)
			}
			decoded := client.AppsV1().RESTClient().Get().Name("a").Resource("b").Do(context.Background()).Error()
			if decoded == nil || apierrors.IsNotFound(decoded) {
				t.Errorf("%q, %d: %v", mediaType, status, decoded)
			}
			legacy, err := discovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := legacy.ServerResourcesForGroupVersionWithContext(t.Context(), "a/v1"); err == nil {
				t.Errorf("%q, %d: no error", mediaType, status)
			}
		}
	}
}
