package org.effectivelyonce.checkpoint;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.exception.AbortedException;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.CommonPrefix;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * The few requests a checkpoint needs, on one bucket. Every failure is thrown as an {@link IOException} that names request and object.
 *
 * <p>Settings: {@code effectivelyonce.s3.endpoint}, {@code effectivelyonce.s3.access.key},
 * {@code effectivelyonce.s3.secret.key}; the bucket is the authority of the checkpoint's path.
 */
final class Bucket {
  record Entry(String name, boolean folder, long bytes, long modifiedMs) {}

  private interface Request<T> {
    T send();
  }

  // One client per endpoint and bucket: Spark makes a manager for every metadata log, and a client costs half a second.
  private static final Map<String, S3Client> CLIENTS = new ConcurrentHashMap<>();

  private final S3Client client;
  private final String name;

  private Bucket(S3Client client, String name) {
    this.client = client;
    this.name = name;
  }

  static Bucket of(Path root, Configuration conf) {
    String endpoint = required(conf, "effectivelyonce.s3.endpoint");
    S3Client client = CLIENTS.computeIfAbsent(endpoint, made -> S3Client.builder()
        .endpointOverride(URI.create(endpoint))
        .region(Region.US_EAST_1)
        .forcePathStyle(true)
        .httpClientBuilder(ApacheHttpClient.builder())
        .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create(
            required(conf, "effectivelyonce.s3.access.key"), required(conf, "effectivelyonce.s3.secret.key"))))
        .build());
    return new Bucket(client, root.toUri().getAuthority());
  }

  private static String required(Configuration conf, String setting) {
    String value = conf.get(setting);
    if (value == null || value.isEmpty()) {
      throw new IllegalArgumentException("setting spark.hadoop." + setting + " is missing: checkpoints need it");
    }
    return value;
  }

  byte[] get(String key) {
    return asking("GET", key, () -> {
      try {
        return client.getObjectAsBytes(r -> r.bucket(name).key(key)).asByteArray();
      } catch (NoSuchKeyException none) {
        return null;
      }
    });
  }

  boolean exists(String key) {
    return asking("HEAD", key, () -> {
      try {
        client.headObject(r -> r.bucket(name).key(key));
        return true;
      } catch (NoSuchKeyException none) {
        return false;
      }
    });
  }

  void put(String key, byte[] content) {
    asking("PUT", key, () -> client.putObject(r -> r.bucket(name).key(key), RequestBody.fromBytes(content)));
  }

  /** False when an object of that name is there already. */
  boolean putIfAbsent(String key, byte[] content) {
    return asking("conditional PUT", key, () -> {
      try {
        client.putObject(r -> r.bucket(name).key(key).ifNoneMatch("*"), RequestBody.fromBytes(content));
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
