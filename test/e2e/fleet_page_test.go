// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"

	"github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
)

// page is the page of the fleet, which kubectl helmop ui serves, in a browser without script.
type page struct {
	browser *http.Client

	// base is the address of the page. link is the link that opens the page.
	base, link string
}

// openPage starts the page of the fleet. It ends with the scenario.
func (s *scenario) openPage() *page {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	reader, writer := io.Pipe()
	ended := make(chan int)
	go func() {
		code := cli.Run(ctx, []string{"ui", "--kubeconfig", s.env.Management.KubeconfigFile(), "-n", s.namespace},
			cli.Streams{In: strings.NewReader(""), Out: writer, ErrOut: io.Discard})
		_ = writer.Close()
		ended <- code
	}()
	s.Cleanup(func() {
		cancel()
		s.Expect(<-ended).To(gomega.BeZero())
	})
	p := &page{}
	for lines := bufio.NewScanner(reader); !strings.HasPrefix(p.link, "http://") && lines.Scan(); {
		p.link = strings.TrimSpace(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	jar, err := cookiejar.New(nil)
	s.must(err)
	p.browser = &http.Client{Jar: jar, Timeout: patience}
	p.base, _, _ = strings.Cut(p.link, "/open")
	status, _ := p.get(s, p.base+"/")
	s.Expect(status).To(gomega.Equal(http.StatusUnauthorized))
	status, _ = p.get(s, p.link)
	s.Expect(status).To(gomega.Equal(http.StatusOK))
	return p
}

// get gets an address of the page.
func (p *page) get(s *scenario, address string) (status int, text string) {
	s.Helper()
	response, err := p.browser.Get(address)
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	s.must(err)
	return response.StatusCode, string(data)
}

// showsPage finds a HelmOp and its rollout on the page.
func (s *scenario) showsPage() {
	helmOp := s.newHelmOp("shown", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))
	p := s.openPage()
	_, matrix := p.get(s, p.base+"/?helmop=shown")
	s.Expect(matrix).To(gomega.MatchRegexp(`2 alike</a><span class="names">one, two`))
	_, rollout := p.get(s, p.base+"/helmop/"+s.namespace+"/shown")
	s.Expect(rollout).To(gomega.ContainSubstring("2 of 2 done"))
}

// findsOnPage follows the links of the page from the fleet to a failed release, and finds the cause and a command.
func (s *scenario) findsOnPage(helmOp, cluster, cause, command string) {
	s.Helper()
	p := s.openPage()
	_, matrix := p.get(s, p.base+"/?helmop="+helmOp)
	row := regexp.MustCompile(`>` + cluster + `</a></th><td><a id="release-[^"]*" href="([^"]+)">.*Failed`)
	found := row.FindStringSubmatch(matrix)
	s.Expect(found).NotTo(gomega.BeNil(), "Cluster %s in %s", cluster, matrix)
	status, release := p.get(s, p.base+found[1])
	s.Expect(status).To(gomega.Equal(http.StatusOK))
	release = html.UnescapeString(release)
	s.Expect(release).To(gomega.And(gomega.ContainSubstring(cause), gomega.ContainSubstring(command)))
}
