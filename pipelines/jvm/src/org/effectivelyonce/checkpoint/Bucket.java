package org.effectivelyonce.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.ResponseInputStream;
import software.amazon.awssdk.core.exception.AbortedException;
import software.amazon.awssdk.core.exception.RetryableException;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.core.sync.ResponseTransformer;
import software.amazon.awssdk.http.AbortableInputStream;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.CommonPrefix;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * The few requests a checkpoint needs, on one bucket. A short outage is waited for ({@link Patience}); every failure is
 * thrown as an {@link IOException} that names request and object.
 *
 * <p>Settings: {@code effectivelyonce.s3.endpoint}, and below {@code effectivelyonce.s3} also {@code region} (us-east-1),
 * {@code access.key}, {@code secret.key} and {@code session.token}, and {@code patience.ms} (30000); the bucket is the
 * authority of the checkpoint's path. Without an access key the environment has the credentials, such as a pod's token.
 */
final class Bucket {
  record Entry(String name, boolean folder, long bytes, long modifiedMs) {}

  private interface Request<T> {
    T send();
  }

  private record Store(S3Client client, Patience patience) {}

  private record Address(String endpoint, long patienceMs) {}

  // One client per store: Spark makes a manager for every metadata log, and a client costs half a second.
  private static final Map<Address, Store> STORES = new ConcurrentHashMap<>();
  private static final long PATIENCE_MS = 30_000;
  // As the pipeline's other client waits for one answer: of a store that is stopped, three in the time of its patience.
  private static final Duration ANSWER = Duration.ofSeconds(10);

  private final S3Client client;
  private final Patience patience;
  private final String name;

  private Bucket(Store store, String name) {
    this.client = store.client();
    this.patience = store.patience();
    this.name = name;
  }

  static Bucket of(Path root, Configuration conf) {
    Address address = new Address(
        required(conf, "effectivelyonce.s3.endpoint"), conf.getLong("effectivelyonce.s3.patience.ms", PATIENCE_MS));
    Store store = STORES.computeIfAbsent(address, made -> {
      Patience patience = new Patience(Duration.ofMillis(address.patienceMs()));
      return new Store(S3Client.builder()
          .endpointOverride(URI.create(address.endpoint()))
          .region(Region.of(conf.get("effectivelyonce.s3.region", "us-east-1")))
          .forcePathStyle(true)
          .httpClientBuilder(ApacheHttpClient.builder().socketTimeout(ANSWER))
          .overrideConfiguration(calls -> calls.retryStrategy(patience))
          .credentialsProvider(credentials(conf))
          .build(), patience);
    });
    return new Bucket(store, root.toUri().getAuthority());
  }

  private static AwsCredentialsProvider credentials(Configuration conf) {
    String access = conf.get("effectivelyonce.s3.access.key", "");
    if (access.isEmpty()) {
      return DefaultCredentialsProvider.builder().build();
    }
    String secret = required(conf, "effectivelyonce.s3.secret.key");
    String token = conf.get("effectivelyonce.s3.session.token", "");
    return StaticCredentialsProvider.create(
        token.isEmpty() ? AwsBasicCredentials.create(access, secret) : AwsSessionCredentials.create(access, secret, token));
  }

  private static String required(Configuration conf, String setting) {
    String value = conf.get(setting);
    if (value == null || value.isEmpty()) {
      throw new IllegalArgumentException("setting " + setting + " is missing: checkpoints need it");
    }
    return value;
  }

  Patience patience() {
    return patience;
  }

  /** The same object from a position on; null when there is none. One that took its place is an error, not its rest. */
  ResponseInputStream<GetObjectResponse> rest(String key, long from, String etag) {
    return asking("GET", key, () -> {
      try {
        return client.getObject(
            r -> r.bucket(name).key(key).ifMatch(etag).range(from > 0 ? "bytes=" + from + "-" : null));
      } catch (NoSuchKeyException none) {
        return null;
      }
    });
  }

  /** An object for reading: a small one is taken into memory, a large one comes as it is read. */
  FSDataInputStream opened(Path path) {
    String key = key(path);
    InputStream content = asking("GET", key, () -> {
      try {
        return client.getObject(r -> r.bucket(name).key(key), ResponseTransformer.unmanaged(
            (GetObjectResponse response, AbortableInputStream bytes) -> content(key, response, bytes)));
      } catch (NoSuchKeyException none) {
        return null;
      }
    });
    if (content == null) {
      throw Unchecked.<RuntimeException>thrown(new FileNotFoundException("checkpoint object " + path + " does not exist"));
    }
    return new FSDataInputStream(content);
  }

  private InputStream content(String key, GetObjectResponse response, AbortableInputStream bytes) {
    if (response.contentLength() > Draft.IN_MEMORY_BYTES) {
      return new SeekableObject(this, key, new ResponseInputStream<>(response, bytes));
    }
    try {
      InputStream whole = new SeekableBytes(bytes.readAllBytes());
      bytes.close();
      return whole;
    } catch (IOException broken) {
      bytes.abort();
      throw RetryableException.create("its bytes broke off: " + broken.getMessage(), broken);
    }
  }

  /** Bytes of an object; null when there is none. */
  Long size(String key) {
    return asking("HEAD", key, () -> {
      try {
        return client.headObject(r -> r.bucket(name).key(key)).contentLength();
      } catch (NoSuchKeyException none) {
        return null;
      }
    });
  }

  void putFile(String key, java.nio.file.Path file) {
    put(key, RequestBody.fromFile(file));
  }

  /**
   * Makes a file visible, in one request, and discards the draft.
   *
   * <p>A retried request meets its own first attempt: equal content is our own success, anything else is another writer's.
   */
  void written(Path path, Draft draft, boolean overwrite) throws IOException {
    try {
      draft.flush();
      if (overwrite) {
        put(key(path), draft.body());
      } else if (!putIfAbsent(key(path), draft.body()) && !draft.equalTo(opened(path))) {
        throw new FileAlreadyExistsException(
            "checkpoint object " + path + " was written by another driver: two drivers share this checkpoint");
      }
    } finally {
      draft.discard();
    }
  }

  private void put(String key, RequestBody body) {
    asking("PUT", key, () -> client.putObject(r -> r.bucket(name).key(key), body));
  }

  /** False when an object of that name is there already. */
  private boolean putIfAbsent(String key, RequestBody body) {
    return asking("conditional PUT", key, () -> {
      try {
        client.putObject(r -> r.bucket(name).key(key).ifNoneMatch("*"), body);
        return true;
      } catch (S3Exception refused) {
        if (refused.statusCode() == 412) {
          return false;
        }
        throw refused;
      }
    });
  }

  /** What lies directly below a prefix that ends in a slash: objects and folders. */
  List<Entry> children(String prefix) {
    return asking("LIST", prefix, () -> {
      List<Entry> found = new ArrayList<>();
      for (ListObjectsV2Response page : client.listObjectsV2Paginator(r -> r.bucket(name).prefix(prefix).delimiter("/"))) {
        for (S3Object object : page.contents()) {
          found.add(new Entry(object.key().substring(prefix.length()), false, object.size(), object.lastModified().toEpochMilli()));
        }
        for (CommonPrefix folder : page.commonPrefixes()) {
          String inner = folder.prefix().substring(prefix.length());
          found.add(new Entry(inner.substring(0, inner.length() - 1), true, 0, 0));
        }
      }
      return found;
    });
  }

  /** Deletes the object and everything below it; nothing there is no error. */
  void deleteAll(String key) {
    asking("DELETE", key, () -> {
      client.deleteObject(r -> r.bucket(name).key(key));
      client.listObjectsV2Paginator(r -> r.bucket(name).prefix(key + "/")).contents()
          .forEach(object -> client.deleteObject(r -> r.bucket(name).key(object.key())));
      return null;
    });
  }

  static String key(Path path) {
    String whole = path.toUri().getPath();
    return whole.startsWith("/") ? whole.substring(1) : whole;
  }

  static FileStatus status(Path folder, Entry entry) {
    return new FileStatus(entry.bytes(), entry.folder(), 1, 1L << 20, entry.modifiedMs(), new Path(folder, entry.name()));
  }

  private <T> T asking(String verb, String key, Request<T> request) {
    try {
      return request.send();
    } catch (AbortedException interrupted) {
      // The query is being stopped. Under this name Spark takes it as that, not as a failure of the query.
      throw Unchecked.<RuntimeException>thrown(
          new InterruptedIOException("object store: " + verb + " of " + name + "/" + key + " was interrupted"));
    } catch (SdkException failure) {
      throw Unchecked.<RuntimeException>thrown(new IOException(
          "object store: " + verb + " of " + name + "/" + key + " failed: " + failure.getMessage(), failure));
    }
  }
}
