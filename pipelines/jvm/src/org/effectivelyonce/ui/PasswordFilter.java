package org.effectivelyonce.ui;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.FilterConfig;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Base64;

/**
 * Asks for a password before Spark shows a page: pages end jobs, and show what a job is made of.
 *
 * <p>Selected by {@code spark.ui.filters}. Parameter {@code file}: where the password is. It is read for each question,
 * so that a renewed one counts at once. Any name will do.
 */
public final class PasswordFilter implements Filter {
  private static final String SCHEME = "Basic ";

  private Path file;

  @Override
  public void init(FilterConfig config) throws ServletException {
    String named = config.getInitParameter("file");
    if (named == null || !Files.isReadable(Path.of(named))) {
      throw new ServletException("the password of Spark's page cannot be read: " + named);
    }
    file = Path.of(named);
  }

  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    if (isRight(((HttpServletRequest) request).getHeader("Authorization"))) {
      chain.doFilter(request, response);
      return;
    }
    HttpServletResponse refused = (HttpServletResponse) response;
    refused.setHeader("WWW-Authenticate", SCHEME + "realm=\"Spark\", charset=\"UTF-8\"");
    refused.sendError(HttpServletResponse.SC_UNAUTHORIZED);
  }

  boolean isRight(String header) throws IOException {
    byte[] password = Files.readString(file).strip().getBytes(StandardCharsets.UTF_8);
    // An empty file is no password that an empty answer knows.
    if (header == null || !header.startsWith(SCHEME) || password.length == 0) {
      return false;
    }
    String said;
    try {
      said = new String(Base64.getDecoder().decode(header.substring(SCHEME.length()).strip()), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException none) {
      return false;
    }
    String given = said.substring(said.indexOf(':') + 1);
    // In the same time, however much of it is right.
    return MessageDigest.isEqual(password, given.getBytes(StandardCharsets.UTF_8));
  }
}
